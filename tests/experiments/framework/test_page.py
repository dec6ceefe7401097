from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from torchcaps.experiments import list_claims
from torchcaps.experiments.framework.page import (
    BEGIN,
    END,
    READMES,
    claims_page,
    short_table,
    with_section,
    write_pages,
)
from torchcaps.experiments.framework.study import Claim
from torchcaps.experiments.framework.thumbnail import MAX_BYTES

ROOT = Path(__file__).parents[3]
RECORDS = sorted((ROOT / "claims").glob("*.json"))
CLAIMS = [
    Claim(name, f"the claim of {name}", "a paper", "large", "small", 1, lambda study: None)
    for name in ("first", "second", "third")
]


def write_record(folder: Path, name: str, holds: bool | None, /, **changes: Any) -> None:
    verdicts = [
        {"holds": holds, "question": "", "sentence": "Capsules have 5.0 ± 2.6 %. The CNN has 6 %."},
        {"holds": False, "question": "Is routing the reason?", "sentence": "Without it 5.1 %."},
    ]
    record = {
        "name": name,
        "claim": "a claim",
        "source": "a paper",
        "data": "MNIST",
        "command": f"torchcaps reproduce {name} --seeds 3",
        "commit": "0123456789abcdef",
        "changed": False,
        "seeds": [0, 1, 2],
        "hours": 0.52,
        "verdicts": verdicts,
        "published": ["paper: CNN: error 5.2 %"],
        "numbers": {},
        "figure": f"{name}.svg",
        "environment": {},
    }
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(record | changes))


def test_every_claim_has_a_row_and_a_section_and_failures_are_said(tmp_path: Path) -> None:
    folder = tmp_path / "claims"
    write_record(folder, "second", False)
    write_record(folder, "third", True, changed=True, figure=None)
    page = claims_page(CLAIMS, folder)
    rows = [line for line in page.splitlines() if line.startswith("| [")]
    assert rows == [
        "| [`first`](#first): the claim of first | not run yet | – |",
        "| [`second`](#second): the claim of second | **does not hold** | Capsules have 5.0 ± 2.6 %. |",
        "| [`third`](#third): the claim of third | **holds** | Capsules have 5.0 ± 2.6 %. |",
    ]
    _, first, second, third = page.split("\n## ")
    assert "\nNot run yet: `torchcaps reproduce first --record`.\n" in first
    assert second.startswith("second\n\n**The claim of second.** Source: a paper.\n")
    assert "\n- **Does not hold.** Capsules have 5.0 ± 2.6 %. The CNN has 6 %.\n" in second
    assert "\n- **Is routing the reason? No.** Without it 5.1 %.\n" in second
    assert "\n- Published: paper: CNN: error 5.2 %.\n" in second
    assert (
        "\n- Made by `torchcaps reproduce second --seeds 3` in 0.52 hours (commit 0123456): 3 seeds; MNIST; "
        "all numbers in [claims/second.json](claims/second.json).\n"
    ) in second
    assert 'src="claims/second.svg"' in second
    assert "(commit 0123456 with changes that were not committed)" in third
    assert "<img" not in third


def test_no_cell_of_a_table_is_long(tmp_path: Path) -> None:
    """A row that repeats whole verdicts cannot be read: they belong into the sections."""
    for page in (claims_page(list_claims(), ROOT / "claims"), short_table(list_claims(), ROOT / "claims")):
        cells = [cell for line in page.splitlines() if line.startswith("|") for cell in line.split(" | ")]
        assert max(map(len, cells)) < 600


def test_every_claim_is_said_in_chinese_too() -> None:
    assert set(READMES["README.zh-CN.md"].claims) == {claim.name for claim in list_claims()}


def test_readme_has_the_verdicts_and_names_what_was_not_run(tmp_path: Path) -> None:
    assert short_table(CLAIMS, tmp_path) == "No claim has been run in full with several seeds yet.\n"
    write_record(tmp_path, "second", None)
    table = short_table(CLAIMS, tmp_path)
    assert "the claim of second | holds in part | Capsules have 5.0 ± 2.6 %. (3 seeds) |" in table
    assert table.endswith("\nNot run in full yet: `first`, `third`.\n")


def test_pages_are_written_between_the_marks(tmp_path: Path) -> None:
    for name in READMES:
        (tmp_path / name).write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_record(tmp_path / "claims", "first", True)
    write_pages(CLAIMS, tmp_path, tmp_path / "claims")
    text = (tmp_path / "README.zh-CN.md").read_text(encoding="utf-8")
    assert text.startswith(f"before\n{BEGIN}\n| 论断 |")
    assert text.endswith(f"{END}\nafter\n")
    assert "| 成立 |" in text
    assert "old" not in text
    # Writing the same again changes nothing.
    write_pages(CLAIMS, tmp_path, tmp_path / "claims")
    assert (tmp_path / "README.zh-CN.md").read_text(encoding="utf-8") == text


def test_a_readme_without_marks_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("by hand")
    with pytest.raises(ValueError, match="between which the table of verdicts goes"):
        write_pages(CLAIMS, tmp_path, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


@pytest.mark.parametrize("changes", [{"name": "other"}, {"verdicts": []}, {"verdicts": [3]}])
def test_a_file_that_is_not_a_record_is_named(tmp_path: Path, changes: dict[str, Any]) -> None:
    write_record(tmp_path, "first", True, **changes)
    with pytest.raises(ValueError, match=r"first\.json is not the record of a claim"):
        claims_page(CLAIMS, tmp_path)
    (tmp_path / "first.json").write_text("{}")
    with pytest.raises(ValueError, match=r"first\.json is not the record of a claim"):
        claims_page(CLAIMS, tmp_path)


def test_a_record_of_no_claim_is_named(tmp_path: Path) -> None:
    write_record(tmp_path, "strange", True)
    with pytest.raises(ValueError, match=r"strange\.json is not the record of a claim"):
        claims_page(CLAIMS, tmp_path)


def test_limits_are_in_the_section_of_their_claim(tmp_path: Path) -> None:
    for name in ("first", "second"):
        write_record(tmp_path, name, True)
    (tmp_path / "limits").mkdir()
    (tmp_path / "limits/second.md").write_text("One rival,\nand a weak one.\n")
    first, second = claims_page(CLAIMS, tmp_path).split("\n## second\n")
    assert "Limits" not in first
    assert "\n- Limits: One rival, and a weak one.\n" in second
    (tmp_path / "limits/strange.md").write_text("None.")
    with pytest.raises(ValueError, match="claim that does not exist: strange"):
        claims_page(CLAIMS, tmp_path)


def test_the_page_is_made_from_the_records() -> None:
    assert (ROOT / "CLAIMS.md").read_text("utf-8") == claims_page(list_claims(), ROOT / "claims")


@pytest.mark.parametrize("name", READMES)
def test_readmes_are_made_from_the_records(name: str) -> None:
    table = short_table(list_claims(), ROOT / "claims", READMES[name])
    assert (ROOT / name).read_text("utf-8") == with_section(ROOT / name, table)


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_every_record_is_evidence(path: Path) -> None:
    record = json.loads(path.read_text("utf-8"))
    (claim,) = (each for each in list_claims() if each.name == path.stem)
    assert len(record["seeds"]) >= (1 if claim.deterministic else 3)
    assert record["seeds"] == list(range(len(record["seeds"])))
    assert (record["claim"], record["source"]) == (claim.claim, claim.source)
    assert record["command"].startswith(f"torchcaps reproduce {claim.name} --seeds {len(record['seeds'])}")
    for name, number in record["numbers"].items():
        values = [value for value in number["values"] if value is not None]
        assert number["mean"] == pytest.approx(sum(values) / len(values)), name
    if record["figure"]:
        assert 0 < (path.parent / record["figure"]).stat().st_size <= MAX_BYTES
