"""From the results of several seeds to one: numbers, sentences, verdicts and tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from statistics import mean, stdev
from typing import Any

from torchcaps.experiments.framework.formatting import is_number, spread_of
from torchcaps.experiments.framework.items import Figure, ReportItem, Table, Text, Verdict
from torchcaps.experiments.framework.measured import Measured

Judge = Callable[[Mapping[str, float]], "tuple[bool | None, str]"]
# A number in a sentence: a sign, thousands, decimals, and an exponent, whose hyphen may be non-breaking.
NUMBER = re.compile(r"(?<![\w.,])[-−]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+\u2011]?\d+)?(?!\w)")
SENTENCE_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?]\))) (?=[A-Z(])")
# Words of the longest phrase in which sentences may differ and still be written as one.
LONGEST_PHRASE = 12


def combine_numbers(runs: Sequence[Mapping[str, float]]) -> dict[str, dict[str, Any]]:
    """Mean, standard deviation and all values of each number.

    A number that a seed does not have is `None` among its values and not in its mean.

    Args:
        runs: the numbers of each seed.

    Example:
        >>> combine_numbers([{"error": 1.0}, {"error": 3.0}])["error"]
        {'mean': 2.0, 'sd': 1.4142135623730951, 'values': [1.0, 3.0]}
    """
    names = dict.fromkeys(name for run in runs for name in run)
    combined = {}
    for name in names:
        values = [run.get(name) for run in runs]
        measured = [value for value in values if value is not None]
        deviation = stdev(measured) if len(measured) > 1 else None
        combined[name] = {"mean": mean(measured), "sd": deviation, "values": values}
    return combined


def combine_sentences(sentences: Sequence[str]) -> str | None:
    """One sentence from those of all seeds, if they differ in their numbers alone.

    A number that differs becomes `mean ± deviation`.

    Args:
        sentences: one for each seed.

    Returns:
        The sentence; `None` if the words differ.

    Example:
        >>> combine_sentences(["3 capsules have 10.0 %.", "3 capsules have 12.0 %."])
        '3 capsules have 11.0 ± 1.4 %.'
        >>> combine_sentences(["It is better.", "It is worse."]) is None
        True
    """
    words = {tuple(NUMBER.split(sentence)) for sentence in sentences}
    if len(words) > 1:
        return None
    columns = list(zip(*(NUMBER.findall(sentence) for sentence in sentences)))
    replaced = [spread_text(texts) for texts in columns]
    return "".join(word + number for word, number in zip(words.pop(), [*replaced, ""]))


def spread_text(texts: Sequence[str]) -> str:
    """A number as all seeds write it.

    >>> spread_text(["5", "5"]), spread_text(["1,000.5", "1,001.5"]), spread_text(["2e-09", "5e-09"])
    ('5', '1,001.0 ± 0.7', '2e-09 to 5e-09')
    """
    if len(set(texts)) == 1:
        return texts[0]
    values = [float(text.replace(",", "").replace("−", "-").replace("\u2011", "-")) for text in texts]
    if any("e" in text for text in texts):
        # A deviation says nothing about orders of magnitude.
        smallest, largest = (texts[values.index(end(values))] for end in (min, max))
        return f"{smallest} to {largest}"
    decimals = max(1, *(len(text.partition(".")[2]) for text in texts))
    return f"{mean(values):,.{decimals}f} ± {stdev(values):.{decimals}f}"


def combine_verdicts(
    runs: Sequence[Sequence[Verdict]], numbers: Sequence[Mapping[str, float]], judge: Judge | None
) -> list[tuple[Verdict, list[bool | None]]]:
    """One verdict for each question, and the answers of the seeds to it.

    The claim itself is decided on the means by `judge`. Without it, and for further questions, the answer is
    yes or no only if all seeds agree on it.

    Args:
        runs: the verdicts of each seed.
        numbers: the numbers of each seed.
        judge: of the claim.
    """
    combined = []
    for question in dict.fromkeys(verdict.question for run in runs for verdict in run):
        answers = [verdict for run in runs for verdict in run if verdict.question == question]
        holds = [verdict.holds for verdict in answers]
        if judge is not None and not question:
            combined.append(judged(judge, numbers))
        else:
            combined.append((counted(answers, len(runs)), holds))
    return combined


def judged(judge: Judge, numbers: Sequence[Mapping[str, float]]) -> tuple[Verdict, list[bool | None]]:
    """The verdict on the means of the numbers, and that on the numbers of each seed alone.

    Seeds are judged again, because the criterion may be another one than when they were recorded.

    >>> def judge(numbers):
    ...     return numbers["error"] < 5, f"The error is {numbers['error']:.1f} %."
    >>> judged(judge, [{"error": 4.0}, {"error": 5.0}])[0].sentence
    'The error is 4.5 ± 0.7 %. Decided on the means; alone, 1 of 2 seeds say the same.'
    """
    shared = [name for name in numbers[0] if all(name in each for each in numbers)]
    holds, sentence = judge({name: Measured([each[name] for each in numbers]) for name in shared})
    alone = [judge({name: Measured([each[name]]) for name in shared})[0] for each in numbers]
    if alone.count(holds) < len(alone):
        sentence += f" Decided on the means; alone, {alone.count(holds)} of {len(alone)} seeds say the same."
    return Verdict(holds, sentence), alone


def counted(answers: Sequence[Verdict], seeds: int) -> Verdict:
    """The verdict of several seeds without a function of their numbers.

    >>> counted([Verdict(True, "10 %"), Verdict(False, "2 %")], 2)
    Verdict(holds=None, sentence='Holds for 1 of 2 seeds. 6.0 ± 5.7 %', question='')
    """
    holds = [verdict.holds for verdict in answers]
    question, sentences = answers[0].question, [verdict.sentence for verdict in answers]
    together = holds[0] if len(set(holds)) == 1 else None
    if seeds == 1:
        return answers[0]
    yes = f"{'Yes' if question else 'Holds'} for {holds.count(True)} of {seeds} seeds"
    partly = f", in part for {holds.count(None)}" if None in holds else ""
    missing = f", no answer for {seeds - len(holds)}" if len(holds) < seeds else ""
    return Verdict(together, f"{yes}{partly}{missing}. {merge_texts(sentences)}", question)


def merge_texts(texts: Sequence[str]) -> str:
    """One text from those of all seeds: what they share is said once, and what differs as alternatives.

    >>> merge_texts(["It has 10.0 %. The best is a CNN.", "It has 12.0 %. The best is a tree."])
    'It has 11.0 ± 1.4 %. The best is a CNN [1 seed] or tree [1 seed].'
    """
    together = combine_sentences(texts)
    if together is not None:
        return together
    pieces = [SENTENCE_END.split(text) for text in texts]
    if len({len(each) for each in pieces}) == 1:
        return " ".join(combine_sentences(each) or merge_sentences(each) for each in zip(*pieces))
    return list_texts(texts)


def merge_sentences(sentences: Sequence[str]) -> str:
    """One sentence from those that differ in one phrase; several, if they differ in more.

    >>> merge_sentences(["The best of all (a CNN) has 1.0 %.", "The best of all (a tree) has 3.0 %."])
    'The best of all (a CNN) [1 seed] or (a tree) [1 seed] has 2.0 ± 1.4 %.'
    """
    end = "." if all(sentence.endswith(".") for sentence in sentences) else ""
    words = [sentence.removesuffix(end).split(" ") for sentence in sentences]
    # Numbers may differ everywhere: they are combined, not listed.
    templates = [NUMBER.sub("0", " ".join(each)).split(" ") for each in words]
    shortest, longest = min(map(len, words)), max(map(len, words))
    first = shared_words(templates, shortest)
    last = shared_words([each[::-1] for each in templates], shortest - first)
    if first + last == shortest:  # one sentence only has more words: name the word beside them too
        first, last = (first, last - 1) if last else (first - 1, last)
    while first and any(
        " ".join(each[:first]).count("(") > " ".join(each[:first]).count(")") for each in words
    ):
        first -= 1  # a phrase in brackets stays whole
    if not 0 < longest - first - last <= min(LONGEST_PHRASE, longest / 2):
        return list_texts(sentences)
    phrases = [" ".join(each[first : len(each) - last]) for each in words]
    heads = combine_sentences([" ".join(each[:first]) for each in words])
    tails = combine_sentences([" ".join(each[len(each) - last :]) for each in words])
    middle = " or ".join(
        f"{phrase} [{count} seed{'s' * (count > 1)}]" for phrase, count in group_texts(phrases)
    )
    return " ".join(part for part in (heads, middle, tails) if part) + end


def shared_words(texts: Sequence[Sequence[str]], most: int) -> int:
    """With how many equal words all texts begin.

    >>> shared_words([["a", "b", "c"], ["a", "b", "d"]], 3)
    2
    """
    return next((place for place in range(most) if len({text[place] for text in texts}) > 1), most)


def list_texts(texts: Sequence[str]) -> str:
    """Texts one after the other; those that differ in numbers alone are one.

    >>> list_texts(["It is 1.0 %.", "It is none.", "It is 3.0 %."])
    'For 2 of 3 seeds: It is 2.0 ± 1.4 %. For 1 of 3 seeds: It is none.'
    """
    return " ".join(f"For {count} of {len(texts)} seeds: {text}" for text, count in group_texts(texts))


def group_texts(texts: Sequence[str]) -> list[tuple[str, int]]:
    """Texts that differ in numbers alone as one, and how many they are."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for text in texts:
        groups.setdefault(tuple(NUMBER.split(text)), []).append(text)
    return [(combine_sentences(group) or group[0], len(group)) for group in groups.values()]


def combine_items(runs: Sequence[Sequence[ReportItem]], seeds: Sequence[int]) -> list[ReportItem]:
    """The items of a report other than verdicts: texts and tables of all seeds, figures of the first.

    Args:
        runs: the items of each seed.
        seeds: the seeds.
    """
    if len(runs) == 1:
        return [item for item in runs[0] if not isinstance(item, Verdict)]
    items: list[ReportItem] = []
    tables = [[item for item in run if isinstance(item, Table)] for run in runs]
    same_tables = len({tuple(map(shape_of, each)) for each in tables}) == 1
    for item in runs[0]:
        if isinstance(item, Figure):
            items.append(item._replace(caption=f"Seed {seeds[0]}. {item.caption}"))
        elif isinstance(item, Table) and same_tables:
            number = tables[0].index(item)
            items.append(combine_tables([each[number] for each in tables]))
    if not same_tables:
        items += [
            table._replace(title=f"{table.title} (seed {seed})")
            for seed, each in zip(seeds, tables)
            for table in each
        ]
    return items + combine_texts(runs, seeds)


def combine_texts(runs: Sequence[Sequence[ReportItem]], seeds: Sequence[int]) -> list[ReportItem]:
    """The paragraphs of all seeds; those that differ in numbers alone are one."""
    groups: dict[tuple[str, ...], list[tuple[int, str]]] = {}
    for seed, run in zip(seeds, runs):
        for item in run:
            if isinstance(item, Text):
                groups.setdefault(tuple(NUMBER.split(item.text)), []).append((seed, item.text))
    texts: list[ReportItem] = []
    for group in groups.values():
        text = combine_sentences([text for _, text in group]) or group[0][1]
        which = ", ".join(str(seed) for seed, _ in group)
        alone = "Seed " if len(group) == 1 else "Seeds "
        texts.append(Text(text if len(group) == len(runs) else f"{alone}{which}: {text}"))
    return texts


def shape_of(table: Table) -> tuple[Any, ...]:
    """What tables must share to be combined cell by cell."""
    return tuple(table.columns), len(table.rows), tuple(table.marked)


def combine_tables(tables: Sequence[Table]) -> Table:
    """A table whose cells are mean ± deviation where all seeds have numbers that differ."""
    first = tables[0]
    rows = [[combine_cells(cells) for cells in zip(*rows)] for rows in zip(*(table.rows for table in tables))]
    caption = combine_sentences([table.caption for table in tables]) or first.caption
    caption += f" Mean ± standard deviation of {len(tables)} seeds."
    return first._replace(rows=rows, caption=caption)


def combine_cells(cells: Sequence[Any]) -> Any:
    """One cell from those of all seeds.

    >>> combine_cells([1.0, 3.0]).mean, combine_cells(["CNN", "CNN"]), combine_cells(["a", "b"])
    (2.0, 'CNN', 'a / b')
    >>> combine_cells([5, 5]), combine_cells([5.0, None])
    (5, '5.0 / –')
    """
    if all(cell == cells[0] for cell in cells):
        return cells[0]
    if all(is_number(cell) and isfinite(cell) for cell in cells):
        return spread_of([float(cell) for cell in cells])
    return " / ".join(dict.fromkeys("–" if cell is None else str(cell) for cell in cells))
