from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from torchcaps.experiments.framework.combine import (
    combine_items,
    combine_numbers,
    combine_sentences,
    combine_tables,
    combine_verdicts,
    merge_texts,
)
from torchcaps.experiments.framework.formatting import Spread, format_column
from torchcaps.experiments.framework.items import Figure, Table, Text, Verdict


def judge(numbers: Any) -> tuple[bool, str]:
    return numbers["error"] < 5, f"The error is {numbers['error']:.1f} %, below 5 or not."


def test_numbers_have_mean_deviation_and_all_values() -> None:
    combined = combine_numbers([{"a": 1.0, "b": 4.0}, {"a": 2.0}, {"a": 6.0, "b": 5.0}])
    assert combined["a"]["mean"] == 3
    assert combined["a"]["sd"] == pytest.approx(7**0.5)
    assert combined["a"]["values"] == [1, 2, 6]
    # Seed 1 has no b: its place stays visible.
    assert combined["b"] == {"mean": 4.5, "sd": pytest.approx(0.5**0.5), "values": [4.0, None, 5.0]}


@pytest.mark.parametrize(
    ("sentences", "expected"),
    [
        (["r = 3 has 1,000.5 %.", "r = 3 has 1,002.5 %."], "r = 3 has 1,001.5 ± 1.4 %."),
        (["R² is -0.20.", "R² is 0.20."], "R² is 0.00 ± 0.28."),
        (["Best of 3, 4.", "Best of 5, 4."], "Best of 4.0 ± 1.4, 4."),
        (["below 5e\u201109.", "below 2e\u201108."], "below 5e\u201109 to 2e\u201108."),
        (["conv6 has 3.", "conv5 has 3."], None),
        (["nothing"], "nothing"),
    ],
)
def test_sentences_that_differ_in_numbers_become_one(sentences: list[str], expected: str | None) -> None:
    assert combine_sentences(sentences) == expected


@pytest.mark.parametrize(("errors", "holds"), [((3.0, 4.0, 6.0), True), ((4.0, 4.0, 9.0), False)])
def test_a_claim_with_a_judge_is_decided_on_the_means(errors: tuple[float, ...], holds: bool) -> None:
    numbers = [{"error": error} for error in errors]
    runs = [[Verdict(*judge(each))] for each in numbers]
    ((verdict, alone),) = combine_verdicts(runs, numbers, judge)
    assert verdict.holds is holds
    assert alone == [True, True, False]
    assert f"{sum(errors) / 3:.1f} ± " in verdict.sentence
    assert f"alone, {2 if holds else 1} of 3 seeds say the same" in verdict.sentence


def test_seeds_that_were_recorded_under_another_criterion_are_judged_again() -> None:
    runs = [[Verdict(False, "Not below 1 %.")]] * 2
    ((verdict, alone),) = combine_verdicts(runs, [{"error": 3.0}, {"error": 4.0}], judge)
    assert verdict.holds
    assert alone == [True, True]
    assert "alone" not in verdict.sentence


@pytest.mark.parametrize(
    ("answers", "holds", "said"),
    [
        ([True, True, True], True, "Holds for 3 of 3 seeds. "),
        ([False, False, False], False, "Holds for 0 of 3 seeds. "),
        ([True, False, True], None, "Holds for 2 of 3 seeds. "),
        ([True, None, True], None, "Holds for 2 of 3 seeds, in part for 1. "),
    ],
)
def test_without_a_judge_seeds_are_counted(answers: list[bool | None], holds: bool | None, said: str) -> None:
    ((verdict, alone),) = combine_verdicts(
        [[Verdict(answer, "It is 1.0 %.")] for answer in answers], [{}] * 3, None
    )
    assert (verdict.holds, alone) == (holds, answers)
    assert verdict.sentence == said + "It is 1.0 %."


def test_further_questions_are_counted_even_with_a_judge() -> None:
    runs = [
        [Verdict(True, "4.0 %"), Verdict(True, "better", "Routing?")],
        [Verdict(True, "4.0 %"), Verdict(False, "worse", "Routing?")],
        [Verdict(True, "4.0 %")],
    ]
    _, (verdict, _) = combine_verdicts(runs, [{"error": 4.0}] * 3, judge)
    assert verdict.heading == "Routing? In part"
    assert (
        verdict.sentence
        == "Yes for 1 of 3 seeds, no answer for 1. For 1 of 2 seeds: better For 1 of 2 seeds: worse"
    )


def table(*rows: list[Any], caption: str = "Of 100 images.") -> Table:
    return Table("Errors", ["network", "error (%)", "epoch"], list(rows), caption, [1])


def test_cells_are_mean_and_deviation_where_all_seeds_have_numbers() -> None:
    paper = ["paper", 8.1, None]
    combined = combine_tables(
        [
            table(["ours", 4.0, 3], paper, caption="It is 2.0."),
            table(["ours", 6.0, 3], paper, caption="It is 4.0."),
        ]
    )
    assert combined.rows == [["ours", Spread(5.0, 2**0.5, (4.0, 6.0)), 3], paper]
    assert combined.marked == [1]
    assert combined.caption == "It is 3.0 ± 1.4. Mean ± standard deviation of 2 seeds."
    assert format_column([row[1] for row in combined.rows]) == ["5.0 ± 1.4", "8.1"]


def test_tables_of_another_shape_stay_apart() -> None:
    runs = [[table(["ours", 4.0, 3])], [table(["ours", 6.0, 3], ["more", 1.0, 1])]]
    assert [item.title for item in combine_items(runs, [0, 1])] == ["Errors (seed 0)", "Errors (seed 1)"]  # type: ignore[union-attr]


def test_figures_are_those_of_the_first_seed_and_texts_those_of_all() -> None:
    runs = [
        [Figure("f", Path("0.svg"), "A curve."), Text("It is 1.0."), Text("Only here.")],
        [Figure("f", Path("1.svg"), "A curve."), Text("It is 3.0.")],
    ]
    figure, both, alone = combine_items(runs, [0, 1])
    assert figure == Figure("f", Path("0.svg"), "Seed 0. A curve.")
    assert both == Text("It is 2.0 ± 1.4.")
    assert alone == Text("Seed 0: Only here.")


def test_a_sentence_may_have_more_numbers_than_there_are_seeds() -> None:
    sentences = [f"It has 1, 2, 3 and {number} %, as required." for number in (4.0, 6.0)]
    assert combine_sentences(sentences) == "It has 1, 2, 3 and 5.0 ± 1.4 %, as required."


ROUTED = "EM groups {} % of the parts. The best method without routing ({}) has {} %. (Criterion: 90 %.)"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (
            [
                ROUTED.format("99.0", "initial couplings, no iteration", "47.0"),
                ROUTED.format("98.0", "nearest parts in the image", "50.0"),
                ROUTED.format("97.0", "initial couplings, no iteration", "50.0"),
            ],
            "EM groups 98.0 ± 1.0 % of the parts. The best method without routing (initial couplings, no "
            "iteration) [2 seeds] or (nearest parts in the image) [1 seed] has 49.0 ± 1.7 %. "
            "(Criterion: 90 %.)",
        ),
        # A word that one of them lacks is never dropped.
        (
            ["EM is clearly better than the rest.", "EM is clearly not better than the rest."],
            "EM is clearly better [1 seed] or not better [1 seed] than the rest.",
        ),
        (["Better", "Not Better"], "For 1 of 2 seeds: Better For 1 of 2 seeds: Not Better"),
        (
            ["It is 1.0 %. More.", "It is 2.0 %.", "It is 4.0 %."],
            "For 1 of 3 seeds: It is 1.0 %. More. For 2 of 3 seeds: It is 3.0 ± 1.4 %.",
        ),
        (
            ["One two three.", "Four five six."],
            "For 1 of 2 seeds: One two three. For 1 of 2 seeds: Four five six.",
        ),
    ],
)
def test_texts_that_differ_in_a_phrase_become_one(texts: list[str], expected: str) -> None:
    assert merge_texts(texts) == expected
