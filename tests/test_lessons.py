"""The lessons: notebooks that run, show what their pages show, and have the same code in both languages."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

DOCS = Path(__file__).parents[1] / "docs"
NAMES = sorted(path.stem for path in DOCS.glob("lessons/*.ipynb"))
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def cells(folder: str, name: str, kind: str | None = None) -> list[dict[str, Any]]:
    notebook = json.loads((DOCS / folder / f"{name}.ipynb").read_text("utf-8"))
    return [cell for cell in notebook["cells"] if kind in (None, cell["cell_type"])]


def load_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stored(name: str) -> dict[str, str]:
    """What the cells of a lesson printed when its outputs were stored."""
    return {path.stem: path.read_text("utf-8") for path in DOCS.glob(f"lessons/outputs/{name}/*.txt")}


def test_there_are_four_lessons() -> None:
    assert [name[:2] for name in NAMES] == ["1-", "2-", "3-", "4-"]


@pytest.mark.parametrize("name", NAMES)
def test_both_languages_have_the_same_code_and_order(name: str) -> None:
    english, chinese = cells("lessons", name), cells("zh/lessons", name)
    assert [cell["id"] for cell in english] == [cell["id"] for cell in chinese]
    for one, other in zip(english, chinese):
        assert one["cell_type"] == other["cell_type"]
        assert one["metadata"].get("tags") == other["metadata"].get("tags")
        if one["cell_type"] == "code":
            assert one["source"] == other["source"], one["id"]
        else:
            headings = [re.findall(r"^#+ |^\d\. ", "".join(cell["source"]), re.M) for cell in (one, other)]
            assert headings[0] == headings[1], one["id"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("folder", ["lessons", "zh/lessons"])
def test_outputs_are_beside_the_notebook_and_every_figure_has_a_description(folder: str, name: str) -> None:
    code = {cell["id"]: cell for cell in cells(folder, name, "code")}
    assert not [cell for cell in code.values() if cell["outputs"] or cell["execution_count"]]
    files = [*DOCS.glob(f"lessons/outputs/{name}/*")]
    assert {path.stem for path in files} <= set(code)
    figures = {path.stem for path in files if path.suffix == ".png"}
    assert figures == {cell for cell in code if code[cell]["metadata"].get("alt")}
    assert sum(path.stat().st_size for path in files) < 300_000


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("folder", ["lessons", "zh/lessons"])
def test_numbers_of_the_text_are_in_the_code_or_in_what_it_prints(folder: str, name: str) -> None:
    shown = "".join(stored(name).values())
    shown += "".join("".join(cell["source"]) for cell in cells(folder, name, "code"))
    for cell in cells(folder, name, "markdown"):
        for number in re.findall(r"\d+\.\d+", "".join(cell["source"])):
            assert re.search(rf"(?<![\d.]){number}0*(?!\d)", shown), (cell["id"], number)


@pytest.mark.parametrize("name", NAMES)
def test_page_has_code_outputs_and_folded_solutions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mkdocs")
    monkeypatch.syspath_prepend(DOCS / "hooks")
    hook = load_file(DOCS / "hooks" / "lessons.py")
    for folder in ("lessons", "zh/lessons"):
        page = hook.page(DOCS / folder / f"{name}.ipynb")
        assert f"({name}.ipynb)" in page
        assert page.count("```python") == len(cells(folder, name, "code"))
        assert all(text.rstrip() in page for text in stored(name).values())
        solutions = re.findall(r"<details.*?</details>", page, flags=re.DOTALL)
        assert len(solutions) == page.count("<details") == page.count("</details>") >= 3
        assert all("```python" in solution for solution in solutions)
        _, _, exercises = page.partition("## 习题" if folder.startswith("zh") else "## Exercises")
        assert len(re.findall(r"^\d\. ", exercises, re.M)) == len(solutions)
        assert "$" not in re.sub(r"```.*?```", "", page, flags=re.DOTALL)


def numbers(text: str) -> list[float]:
    return [float(number) for number in NUMBER.findall(text)]


def row(text: str, start: str) -> list[float]:
    """The numbers of the line that begins so."""
    [line] = [line for line in text.splitlines() if line.startswith(start)]
    return numbers(line.removeprefix(start))


def check_routing(shown: Mapping[str, str]) -> None:
    """What the text says of each routing and each data set."""
    right: dict[tuple[str, str], float] = {}
    for line in shown["failures"].splitlines():
        *data, routing, share = line.split()
        right[" ".join(data), routing] = float(share)
    assert min(right["two directions", routing] for routing in ("dynamic", "kmeans", "em")) > 0.95
    assert right["one direction", "dynamic"] < 0.6 < 0.95 < right["one direction", "em"]
    assert right["wide and flat", "kmeans"] < 0.6 < 0.95 < right["wide and flat", "em"]


def check_training(shown: Mapping[str, str]) -> None:
    """On single digits the networks are about equal; of pairs the capsules read more with every seed."""
    single = {name: row(shown["seeds"], name) for name in ("CNN", "CapsNet")}
    assert abs(sum(single["CNN"]) - sum(single["CapsNet"])) / 3 < 2
    pairs = {name: row(shown["two-digits"], name) for name in ("CNN", "CapsNet")}
    gap = min(pairs["CapsNet"]) - max(pairs["CNN"])
    assert gap > max(max(values) - min(values) for values in pairs.values())
    weak, _ = row(shown["solve-3"], "average pooling:")
    assert weak < min(single["CNN"])
    _, uniform = row(shown["solve-4"], "uniform routing:")
    assert max(pairs["CNN"]) < uniform < min(pairs["CapsNet"])


def check_parts(shown: Mapping[str, str]) -> None:
    """Capsules know all angles, the CNN those of its training, and one trained on all angles knows all."""
    capsules, cnn = row(shown["cnn"], "capsules")[1::2], row(shown["cnn"], "CNN")[1::2]
    assert min(capsules) > 95
    assert cnn[0] > 90
    assert max(cnn[2:]) < 70
    everywhere = row(shown["solve-3"], "CNN, all angles:")[1::2]
    assert max(cnn[2:]) + 30 < min(everywhere)
    assert max(everywhere) < 97
    (capsule_area, _, _), (cnn_area, _, _) = (row(shown["scrambled"], name) for name in ("capsules", "CNN"))
    assert capsule_area > 0.97
    assert cnn_area < 0.9


# What the text concludes, and how far numbers may be from the stored ones on another machine.
CHECKS: dict[str, tuple[float, Callable[[Mapping[str, str]], None]]] = {
    "1-capsules": (0.02, lambda shown: None),
    "2-routing": (0.05, check_routing),
    "3-training": (15.0, check_training),
    "4-parts": (20.0, check_parts),
}


# The second lesson has the most routing and trains nothing: it is the quick check of the machinery.
@pytest.mark.parametrize(
    "name", [name if name == "2-routing" else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]
)
def test_lesson_runs_and_shows_what_its_page_shows(name: str, tmp_path: Path) -> None:
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    shown = load_file(DOCS / "lessons" / "run.py").run(DOCS / "lessons" / f"{name}.ipynb", tmp_path)
    texts = {cell: text for cell, (text, _) in shown.items() if text}
    assert texts.keys() == stored(name).keys()
    atol, check = CHECKS[name]
    for cell, text in stored(name).items():
        if "px" not in text:  # a parse tree, whose form depends on what is found
            assert NUMBER.sub("0", texts[cell]).split() == NUMBER.sub("0", text).split(), cell
            assert numbers(texts[cell]) == pytest.approx(numbers(text), abs=atol, rel=0.02), cell
    check(texts)
    figures = {path.stem for path in DOCS.glob(f"lessons/outputs/{name}/*.png")}
    assert {cell for cell, (_, figure) in shown.items() if figure} == figures
