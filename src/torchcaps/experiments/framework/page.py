"""CLAIMS.md and the tables of verdicts in the READMEs, made from the records of claims and nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torchcaps.experiments.framework.chinese import CLAIMS as CHINESE_CLAIMS
from torchcaps.experiments.framework.combine import SENTENCE_END
from torchcaps.experiments.framework.report import capitalize_first
from torchcaps.experiments.framework.storage import read_json, write_text
from torchcaps.experiments.framework.study import Claim

HEAD = """# Claims

What the papers and essays say about capsules, and what came out when it was tried here. Each verdict is that
of the full form of an experiment with several seeds, as it wrote it to `claims/*.json`; this page is made
from those files by `torchcaps claims`. Numbers are mean ± standard deviation over seeds, and all values are
in the files. Where the seeds differ in words, the number of seeds is in brackets. A claim that does not hold
is a result too. Each claim has a section below the table, with all questions, its source, its limits and its
command. How verdicts are decided, and what is still open, is in [docs/evidence.md](docs/evidence.md).

Two groups of claims must be told apart. Most try the networks of the papers and essays. But `wholes`,
`scrambled`, `few`, `poses`, `crowds`, `hierarchy`, `solids` and `parts-unlabeled` try what the papers say
with a network of this library: a detector finds parts with their poses, and one or two capsule layers find
wholes. All but `parts-unlabeled` train the detector on millions of labeled parts at all angles, and the
scores of the capsules do not depend on the viewpoint by construction. That such a network knows wholes at new
angles says that the idea is sound if poses of parts are found. It does not say that the networks of the
papers do this.

"""
COLUMNS = ("claim", "verdict", "in short")
BEGIN, END = "<!-- claims: begin -->", "<!-- claims: end -->"
NEEDED = (
    "name",
    "claim",
    "source",
    "data",
    "command",
    "commit",
    "changed",
    "seeds",
    "hours",
    "verdicts",
    "published",
    "numbers",
    "figure",
    "environment",
)
VERDICTS = {True: "holds", False: "does not hold", None: "holds in part"}
ANSWERS = {True: "yes", False: "no", None: "in part"}


class Words(NamedTuple):
    """The words of the short table in one language.

    Attributes:
        columns: headings.
        verdicts: by answer.
        seeds: the number of seeds, with `{}` for the number.
        claims: the claims by name; empty for those of the experiments themselves. The last column is then the
            number of seeds: the sentence with the numbers is in English.
        more: the sentence on claims without a record, with `{}` for their names.
        none: the sentence if no claim has a record.
    """

    columns: tuple[str, str, str]
    verdicts: dict[bool | None, str]
    seeds: str
    claims: Mapping[str, str]
    more: str
    none: str


ENGLISH = Words(
    ("claim", "verdict", "numbers"),
    VERDICTS,
    "{} seeds",
    {},
    "Not run in full yet: {}.",
    "No claim has been run in full with several seeds yet.",
)
CHINESE = Words(
    ("论断", "结论", "依据"),
    {True: "成立", False: "不成立", None: "部分成立"},
    "{} 个随机种子",
    CHINESE_CLAIMS,
    "尚未完整运行：{}。",
    "还没有论断用多个随机种子完整运行过。",
)
READMES = {"README.md": ENGLISH, "README.zh-CN.md": CHINESE}


def claims_page(claims: Sequence[Claim], folder: str | Path) -> str:
    """The page: a table with one row for each claim, and a section for each.

    Args:
        claims: all claims, in the order of the page.
        folder: of the records.
    """
    records = read_records(claims, folder)
    limits = read_limits(claims, folder)
    rows = [page_row(claim, records.get(claim.name)) for claim in claims]
    sections = [
        page_section(claim, records.get(claim.name), Path(folder).name, limits.get(claim.name, ""))
        for claim in claims
    ]
    return HEAD + markdown(COLUMNS, rows) + "".join(sections)


def short_table(claims: Sequence[Claim], folder: str | Path, words: Words = ENGLISH) -> str:
    """The table of verdicts of a README: the claims that have a record, and the names of the others."""
    records = read_records(claims, folder)
    rows = []
    for claim in claims:
        if claim.name not in records:
            continue
        verdict = main_verdict(records[claim.name])
        count = len(records[claim.name]["seeds"])
        seeds = words.seeds.format(count) if count > 1 else ""
        numbers = first_sentence(verdict["sentence"]) + (f" ({seeds})" if seeds else "")
        rows.append(
            [
                f"{link_to(claim, 'CLAIMS.md')}: {words.claims.get(claim.name, claim.claim)}",
                words.verdicts[verdict["holds"]],
                seeds if words.claims else numbers,
            ]
        )
    missing = ", ".join(f"`{claim.name}`" for claim in claims if claim.name not in records)
    if not rows:
        return words.none + "\n"
    return markdown(words.columns, rows) + (f"\n{words.more.format(missing)}\n" if missing else "")


def link_to(claim: Claim, page: str = "") -> str:
    """A link to the section of a claim."""
    return f"[`{claim.name}`]({page}#{claim.name})"


def read_records(claims: Sequence[Claim], folder: str | Path) -> dict[str, dict[str, Any]]:
    """All records of a folder, by name.

    Raises:
        ValueError: a file is not a record, or there is no claim of its name.
    """
    names = {claim.name for claim in claims}
    records = {}
    for path in sorted(Path(folder).glob("*.json")):
        try:
            record = read_json(path, *NEEDED)
            main_verdict(record)
            known = record["name"] == path.stem in names
        except (LookupError, TypeError, ValueError):
            known = False
        if not known:
            raise ValueError(
                f"{path} is not the record of a claim: write it with torchcaps reproduce {path.stem} --record"
            )
        records[path.stem] = record
    return records


def read_limits(claims: Sequence[Claim], folder: str | Path) -> dict[str, str]:
    """What the numbers of a claim do not show, by name: the texts of `limits/NAME.md` beside the records.

    Raises:
        ValueError: there is no claim of a file's name.
    """
    names = {claim.name for claim in claims}
    limits = {}
    for path in sorted(Path(folder, "limits").glob("*.md")):
        if path.stem not in names:
            raise ValueError(f"{path} has the limits of a claim that does not exist: {path.stem}")
        limits[path.stem] = " ".join(path.read_text(encoding="utf-8").split())
    return limits


def main_verdict(record: dict[str, Any]) -> dict[str, Any]:
    """The verdict on the claim itself; without one, the first verdict."""
    own = [verdict for verdict in record["verdicts"] if not verdict["question"]]
    return (own or record["verdicts"])[0]


def page_row(claim: Claim, record: dict[str, Any] | None) -> list[str]:
    """A claim in the table: its verdict, with the first sentence of the reason."""
    first = f"{link_to(claim)}: {claim.claim}"
    if record is None:
        return [first, "not run yet", "–"]
    verdict = main_verdict(record)
    return [first, f"**{VERDICTS[verdict['holds']]}**", first_sentence(verdict["sentence"])]


def page_section(claim: Claim, record: dict[str, Any] | None, folder: str, limits: str = "") -> str:
    """A claim with its source, all verdicts, its limits, the figure and the command."""
    head = f"\n## {claim.name}\n\n**{capitalize_first(claim.claim)}.** Source: {claim.source}.\n"
    if record is None:
        published = f" Published: {claim.published}." if claim.published else ""
        return f"{head}\nNot run yet: `torchcaps reproduce {claim.name} --record`.{published}\n"
    count = len(record["seeds"])
    seeds = "the same for every seed" if count == 1 else f"{count} seeds"
    commit = f"commit {record['commit'][:7]}" if record["commit"] else "installed package"
    changed = " with changes that were not committed" if record["changed"] else ""
    figure = f"{folder}/{record['figure']}"
    image = f'\n<a href="{figure}"><img src="{figure}" width="480" alt="{claim.name}"></a>\n'
    verdicts = "".join(f"- {verdict_text(verdict)}\n" for verdict in record["verdicts"])
    published = f"- Published: {'; '.join(record['published'])}.\n" if record["published"] else ""
    limits = f"- Limits: {limits}\n" if limits else ""
    origin = f"- Made by `{record['command']}` in {record['hours']:.2g} hours ({commit}{changed})"
    numbers = (
        f"{seeds}; {record['data']}; all numbers in [{folder}/{claim.name}.json]({folder}/{claim.name}.json)"
    )
    return f"{head}\n{verdicts}{published}{limits}{origin}: {numbers}.\n{image if record['figure'] else ''}"


def verdict_text(verdict: dict[str, Any]) -> str:
    """A verdict with its reason.

    >>> verdict_text({"holds": False, "question": "Is routing the reason?", "sentence": "It is 3 %."})
    '**Is routing the reason? No.** It is 3 %.'
    """
    answer = ANSWERS if verdict["question"] else VERDICTS
    words = f"{verdict['question']} {capitalize_first(answer[verdict['holds']])}.".strip()
    return f"**{words}** {verdict['sentence']}"


def first_sentence(text: str) -> str:
    """The first sentence of a verdict; if that counts seeds, the second too, or alone if all seeds agree.

    >>> first_sentence("Holds for 2 of 3 seeds. Capsules have 5.2 ± 0.1 %. The CNN has 8.1 %.")
    'Holds for 2 of 3 seeds. Capsules have 5.2 ± 0.1 %.'
    >>> first_sentence("Holds for 3 of 3 seeds. Capsules have 5.2 ± 0.1 %. The CNN has 8.1 %.")
    'Capsules have 5.2 ± 0.1 %.'
    """
    first, *rest = SENTENCE_END.split(text)
    counts = re.match(r"(?:Holds|Yes) for (\d+) of (\d+) seeds\b", first)
    if not counts or not rest:
        return first
    return rest[0] if counts[1] == counts[2] else f"{first} {rest[0]}"


def write_pages(claims: Sequence[Claim], root: Path, folder: Path) -> list[Path]:
    """Write CLAIMS.md, and the table between the marks of each README.

    Returns:
        The files written.

    Raises:
        ValueError: a README has no marks.
    """
    written = [root / "CLAIMS.md"]
    texts = {root / "CLAIMS.md": claims_page(claims, folder)}
    for name, words in READMES.items():
        path = root / name
        if path.is_file():
            texts[path] = with_section(path, short_table(claims, folder, words))
            written.append(path)
    for path, text in texts.items():
        write_text(path, text)
    return written


def with_section(path: Path, section: str) -> str:
    """The text of a file with another section between the marks."""
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} has no lines {BEGIN} and {END}, between which the table of verdicts goes")
    return f"{before}{BEGIN}\n{section}{END}{after}"


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; bars inside of cells are escaped."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |\n"
        for line in lines
    )
