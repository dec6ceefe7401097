from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

from torchcaps.experiments.framework.figures import add_axes, new_figure
from torchcaps.experiments.framework.report import TERMS
from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.study import Claim, Study


def page_of(run: Callable[[Study], None], folder: Path) -> str:
    reproduce(Claim("sample", "a claim", "a paper", "large", "small", 1, run), folder, quick=True)
    return (folder / "report.html").read_text(encoding="utf-8")


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attributes) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "img", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data) -> None:
        self.text += data


def test_report_is_one_file_with_all_items(tmp_path: Path) -> None:
    def run(study: Study) -> None:
        figure = new_figure()
        add_axes(figure)[0].plot([0, 1])
        study.add_figure("line", figure, caption="A line <rising>.")
        study.add_animation("moving", [figure, figure], caption="It moves.")
        study.add_table("Rows", ["name", "error (%)"], [["ours", 1.2345], ["theirs", None]], caption="See.")
        study.add_text("Plain words.")
        study.add_verdict(None, "In part.")
        study.add_number("ours.error", 1.2345)

    claim = Claim("sample", "a < b & c", "a paper", "nothing", "nothing", 1, run)
    result = reproduce(claim, tmp_path, quick=True)
    for name in ("line.png", "line.svg", "moving.gif", "result.json", "report.html"):
        assert (tmp_path / name).stat().st_size > 0
    assert json.loads((tmp_path / "result.json").read_text()) == json.loads(json.dumps(result))
    assert result["numbers"] == {"ours.error": 1.2345}
    page = Tags()
    page.feed((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert not page.open
    assert "A < b & c" in page.text
    assert TERMS in page.text
    assert "1.234" in page.text
    assert "Plain words." in page.text
    assert "The claim holds in part" in page.text
    assert not [tag for tag, _ in page.tags if tag in ("script", "link", "iframe")]
    sources = [attributes["src"] for tag, attributes in page.tags if tag == "img"]
    assert len(sources) == 2
    assert all(source.startswith("data:image/") for source in sources)


def test_numbers_of_a_column_have_the_same_decimals(tmp_path: Path) -> None:
    def run(study: Study) -> None:
        rows = [["a < b", 100.0, 12, 0.5], ["c", 98.789, 3456, 2.8e-9], ["d", 0.6608, None, 0.25]]
        study.add_table("Rows", ["name", "correct (%)", "parameters", "change"], rows, caption="See.")

    cells = re.findall(r"<t[dh][^>]*>([^<]*)</t[dh]>", page_of(run, tmp_path))
    assert cells[4:] == [
        *("a &lt; b", "100.00", "12", "0.50"),
        *("c", "98.79", "3,456", "2.8e-09"),
        *("d", "0.66", "–", "0.25"),
    ]


def test_empty_table_has_its_head(tmp_path: Path) -> None:
    page = page_of(lambda study: study.add_table("Rows", ["a", "b"], [], caption="None."), tmp_path)
    assert page.count('<th scope="col">') == 2


def test_no_line_can_break_before_a_percent_sign(tmp_path: Path) -> None:
    def run(study: Study) -> None:
        study.add_text("1 % of text")
        study.add_table("2 % of rows", ["3 % of a column"], [["4 %"]], caption="5 % of a caption")
        study.add_verdict(True, "6 % of all")

    page = page_of(run, tmp_path)
    body = page[page.index("<body>") :].replace(' aria-label="2 % of rows"', "")
    assert " %" not in body
    assert body.count("\N{NO-BREAK SPACE}%") == 6


def test_figures_and_tables_scroll_on_a_phone() -> None:
    style = files("torchcaps.experiments.framework").joinpath("report.css").read_text(encoding="utf-8")
    assert ".paper img { max-width: 44rem; }" in style[style.index("@media (max-width: 40rem)") :]
    assert "tr > :first-child { position: sticky; left: 0; background: var(--behind); }" in style


def test_terms_are_two_sentences() -> None:
    assert len(re.findall(r"[.!?](?= |$)", TERMS)) == 2
    assert all(word in TERMS for word in ("vote", "coupling", "outing"))


def test_percentages_of_a_table_are_rounded_alike(tmp_path: Path) -> None:
    def run(study: Study) -> None:
        columns = ["method", "single (%)", "crowded (%)", "epochs"]
        study.add_table("Rows", columns, [["EM", 100.0, 98.789, 3], ["CNN", 100.0, 84.0, 12]], caption="See.")

    cells = re.findall(r"<t[dh][^>]*>([^<]*)</t[dh]>", page_of(run, tmp_path))
    assert cells[4:] == ["EM", "100.00", "98.79", "3", "CNN", "100.00", "84.00", "12"]


def test_papers_are_linked(tmp_path: Path) -> None:
    claim = Claim("s", "a claim", "“Dynamic routing between capsules” (2017)", "", "", 1, lambda study: None)
    reproduce(claim, tmp_path, quick=True)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert '“<a href="https://arxiv.org/abs/1710.09829">Dynamic routing between capsules</a>” (2017)' in page
