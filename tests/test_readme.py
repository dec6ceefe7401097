"""The READMEs: their code runs, and both languages show the same code, numbers and links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from torchcaps.experiments import list_claims

README = Path(__file__).parents[1] / "README.md"
CHINESE = README.with_name("README.zh-CN.md")


def test_every_python_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = README.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "readme"}
    blocks = list(re.finditer(r"```python\n(.*?)```", text, flags=re.DOTALL))
    assert len(blocks) == 3
    for block in blocks:
        lines_before = text[: block.start(1)].count("\n")  # so that a traceback shows the right line
        exec(compile("\n" * lines_before + block[1], str(README), "exec"), names)
    assert names["output"].scores.shape == (4, 5)  # type: ignore[attr-defined]
    assert names["layer"](torch.randn(2, 6, 8)).pose.shape == (2, 3, 16)  # type: ignore[operator]


def test_the_readme_is_read_in_three_minutes() -> None:
    text = re.sub(
        r"```.*?```|<!-- claims: begin.*?claims: end -->", "", README.read_text("utf-8"), flags=re.DOTALL
    )
    assert len(text.split()) < 900  # about 300 words per minute


def numbers(text: str) -> list[str]:
    """Every number of a page that both languages must share: not those of code, links and claims."""
    text = re.sub(
        r"```.*?```|<!-- claims: begin.*?claims: end -->|\]\([^)]*\)|`[^`]*`", "", text, flags=re.DOTALL
    )
    return sorted(re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", text))


def test_both_languages_have_the_same_numbers() -> None:
    english, chinese = (numbers(page.read_text("utf-8")) for page in (README, CHINESE))
    assert english == chinese


def test_both_languages_show_the_same_pictures_and_link_to_the_same_pages() -> None:
    def targets(page: Path) -> set[str]:
        text = page.read_text("utf-8").replace("README.zh-CN.md", "README.md").replace("docs/zh/", "docs/")
        return set(re.findall(r"\]\(([^)]+)\)", text))

    assert targets(README) == targets(CHINESE)


def test_both_languages_show_the_same_code() -> None:
    fenced = re.compile(r"```.*?```", flags=re.DOTALL)
    assert fenced.findall(README.read_text("utf-8")) == fenced.findall(CHINESE.read_text("utf-8"))


@pytest.mark.parametrize("page", [README, CHINESE], ids=lambda page: page.name)
def test_both_languages_have_the_same_outline(page: Path) -> None:
    def outline(text: str) -> list[str]:
        text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        return re.findall(r"^(#+|- \*\*|\|)", text, flags=re.MULTILINE)

    assert outline(page.read_text("utf-8")) == outline(README.read_text("utf-8"))


def test_number_of_claims_is_right() -> None:
    assert f"{len(list_claims())} claims, most of them of the papers" in README.read_text("utf-8")
