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


def test_every_claim_has_a_row_and_failures_are_said(tmp_path: Path) -> None:
    folder = tmp_path / "claims"
    write_record(folder, "second", False)
    write_record(folder, "third", True, changed=True, figure=None)
    rows = [line.split(" | ") for line in claims_page(CLAIMS, folder).splitlines() if line.startswith("| `")]
    assert [row[0] for row in rows] == [f"| `{claim.name}`: The {claim.claim[4:]}" for claim in CLAIMS]
    assert rows[0][2] == "not run yet"
    assert rows[1][2] == (
        "**does not hold**: Capsules have 5.0 ± 2.6 %. The CNN has 6 %.<br>**Is routing the reason?** "
        "**no**: Without it 5.1 %. (3 seeds; MNIST)"
    )
    assert rows[1][3:6] == [
        "paper: CNN: error 5.2 %",
        "0.52",
        "`torchcaps reproduce second --seeds 3` (commit 0123456)",
    ]
    assert 'src="claims/second.svg"' in rows[1][6]
    assert rows[2][2].startswith("**holds**")
    assert rows[2][5].endswith("(commit 0123456 with changes that were not committed)")


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
