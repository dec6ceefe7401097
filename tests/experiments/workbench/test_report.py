from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from torchcaps.experiments.workbench.claim import Claim
from torchcaps.experiments.workbench.numerals import column_texts
from torchcaps.experiments.workbench.running import reproduce
from torchcaps.experiments.workbench.study import Study


def page_of(run, folder: Path) -> str:
    reproduce(Claim("sample", "a claim", "nobody", "much", "little", 1, run), folder, quick=True)
    return (folder / "report.html").read_text(encoding="utf-8")


def test_a_column_has_as_many_decimals_everywhere(tmp_path: Path) -> None:
    def run(study: Study) -> None:
        rows = [["a < b", 100.0, 12, 0.5], ["c", 98.789, 3456, 2.8e-9], ["d", 0.6608, None, 0.25]]
        study.table("Rows", ["name", "right (%)", "weights", "change"], rows, caption="See.")

    cells = re.findall(r"<t[dh][^>]*>([^<]*)</t[dh]>", page_of(run, tmp_path))
    assert cells[4:] == [
        *("a &lt; b", "100.00", "12", "0.50"),
        *("c", "98.79", "3,456", "2.8e-09"),
        *("d", "0.66", "–", "0.25"),
    ]


def test_no_number_is_lost_in_its_column() -> None:
    assert column_texts([12345.678, 0.5, -3.2]) == ["12,346", "0.5", "-3"]
    assert column_texts([4e-5, 2e-7, 0.0]) == ["4.0e-05", "2.0e-07", "0.0e+00"]
    assert column_texts([float("nan"), float("inf"), 1.25]) == ["nan", "inf", "1.25"]
    assert column_texts([0.0, 0.0]) == ["0", "0"]
    assert column_texts([True, "x", None]) == ["yes", "x", "–"]
    assert column_texts([]) == []


def test_an_empty_table_has_its_head(tmp_path: Path) -> None:
    page = page_of(lambda study: study.table("Rows", ["a", "b"], [], caption="None."), tmp_path)
    assert page.count('<th scope="col">') == 2


def test_a_percent_sign_stays_with_its_number(tmp_path: Path) -> None:
    def run(study: Study) -> None:
        study.text("1 % of text")
        study.table("2 % of rows", ["3 % of a column"], [["4 %"]], caption="5 % of a caption")
        study.verdict(True, "6 % of all")

    page = page_of(run, tmp_path)
    body = page[page.index("<body>") :].replace(' aria-label="2 % of rows"', "")
    assert " %" not in body
    assert body.count("\N{NO-BREAK SPACE}%") == 6


def test_figures_and_tables_scroll_on_a_phone_by_themselves() -> None:
    style = files("torchcaps.experiments.workbench").joinpath("report.css").read_text(encoding="utf-8")
    assert ".paper img { max-width: 44rem; }" in style[style.index("@media (max-width: 40rem)") :]
    assert "tr > :first-child { position: sticky; left: 0; background: var(--behind); }" in style
