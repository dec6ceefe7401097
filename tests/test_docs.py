"""The pages in docs/ agree with the code."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import torchcaps
import torchcaps.data
import torchcaps.training
import torchcaps.votes
from torchcaps import list_models, list_pose_spaces, list_routings
from torchcaps.experiments.compare.summary import MEASURES
from torchcaps.routing import Routing

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "torchcaps"
DESIGN = ROOT / "docs" / "design.md"
COMMAND_LINE = ROOT / "docs" / "guides" / "commandline.md"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob(".github/**/*.md")])
FENCE = re.compile(r"^ *```.*?^ *```$", flags=re.DOTALL | re.MULTILINE)


def site_path(page: Path) -> str:
    return page.relative_to(ROOT / "docs").as_posix()


def section(heading: str, page: Path = DESIGN) -> str:
    """The text of one section of a page, by default of the design page."""
    _, _, rest = f"\n{page.read_text(encoding='utf-8')}".partition(f"\n{heading}\n")
    assert rest, f"{page.name} has no section {heading!r}"
    return re.split(r"\n#{1,3} ", rest)[0]


def first_column(heading: str, page: Path = DESIGN) -> set[str]:
    return set(re.findall(r"^\| `([^`]+)`", section(heading, page), flags=re.MULTILINE))


def test_design_lists_every_package_and_module() -> None:
    public = [path for path in PACKAGE.iterdir() if not path.name.startswith(("_", "."))]
    folders = {f"{path.name}/" for path in public if path.is_dir() and any(path.iterdir())}
    modules = {path.name for path in public if path.suffix == ".py"}
    assert first_column("## Packages") == folders | modules


def test_the_page_on_the_command_line_lists_every_command() -> None:
    app = pytest.importorskip("torchcaps.cli.app")
    names = {f"torchcaps {command.__name__}" for command in app.COMMANDS}
    assert first_column("# The command line", COMMAND_LINE) == names


def test_every_environment_variable_is_listed_in_one_place() -> None:
    used: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        used |= set(re.findall(r"TORCHCAPS_[A-Z_]+[A-Z]", path.read_text(encoding="utf-8")))
    assert used
    assert used == first_column("## Environment variables", COMMAND_LINE)


def test_design_lists_every_pose_space_and_routing() -> None:
    assert first_column("### Pose spaces") == set(list_pose_spaces())
    assert first_column("### Routing") == set(list_routings())


def test_the_guide_to_an_own_routing_lists_what_a_class_says_of_itself() -> None:
    page = ROOT / "docs" / "guides" / "routing.md"
    flags = [name for name, hint in Routing.__annotations__.items() if "ClassVar" in str(hint)]
    assert set(flags) <= first_column("# Your own routing", page)
    source = (PACKAGE / "routing" / "base.py").read_text("utf-8")
    for name in flags:  # a string below an attribute is what the API page shows of it
        assert f"| `{name}` | `{getattr(Routing, name)}` |" in page.read_text("utf-8")
        assert re.search(rf'^    {name}: ClassVar.*\n    """', source, re.M)


def slug(heading: str) -> str:
    """The anchor of a heading, as the site and code hosts make it."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower())


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text("utf-8")), flags=re.MULTILINE)
    return {slug(heading) for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?[^)]*\)", text):
        if "://" in target or target.startswith("mailto:"):
            continue
        file = page.parent / target if target else page
        assert file.exists(), f"{page.name} links to {target}"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{page.name} links to {target}#{anchor}"


@pytest.mark.parametrize("page", [*ROOT.glob("docs/zh/*.md")], ids=site_path)
def test_chinese_pages_show_the_same_code_and_pictures(page: Path) -> None:
    chinese, english = page.read_text("utf-8"), (ROOT / "docs" / page.name).read_text("utf-8")
    assert FENCE.findall(chinese) == FENCE.findall(english)
    pictures = re.compile(r"(?:!\[[^]]*\]\(|(?:src|srcset)=\")(?:\.\./)?([^)\"]+)")
    assert pictures.findall(chinese) == pictures.findall(english)
    outline = re.compile(r"^#+ |^\| ", flags=re.MULTILINE)
    assert outline.findall(FENCE.sub("", chinese)) == outline.findall(FENCE.sub("", english))


HAN, MARKS = "\u4e00-\u9fff", "\u3001-\u3011\uff01-\uff5e“”"
# A line may not end here: browsers show a space for it, which Chinese text does not have.
CHINESE_BREAK = re.compile(
    rf"[{MARKS}][*_`)\]]*\n *(?![-*+|#>!<]|\d+\.|```)\S|[{HAN}]\n *(?=[{HAN}{MARKS}])|\S\n *(?=[{MARKS}])"
)


@pytest.mark.parametrize(
    "page", [ROOT / "README.zh-CN.md", *ROOT.glob("docs/zh/**/*.md")], ids=lambda page: page.name
)
def test_chinese_sentences_are_not_broken_into_lines(page: Path) -> None:
    broken = CHINESE_BREAK.finditer(FENCE.sub("", page.read_text("utf-8")))
    assert [match[0] for match in broken] == []


def test_a_pose_has_one_name_in_chinese() -> None:
    """On every page, in the lessons and in the lab."""
    pages = [ROOT / "README.zh-CN.md", *ROOT.glob("docs/zh/**/*.md"), *ROOT.glob("docs/zh/**/*.ipynb")]
    pages += [*PACKAGE.glob("lab/static/**/*.js"), *PACKAGE.rglob("chinese.py")]
    assert any("位姿" in page.read_text("utf-8") for page in pages)
    assert [page.name for page in pages if "姿态" in page.read_text("utf-8")] == []


def test_chinese_pages_say_that_they_are_chinese() -> None:
    chinese = hook("chinese")
    page = SimpleNamespace(file=SimpleNamespace(src_uri="zh/start.md"))
    html = '<!doctype html><html lang="en" class="no-js">'
    assert chinese.on_post_page(html, page, None) == '<!doctype html><html lang="zh-CN" class="no-js">'
    page.file.src_uri = "start.md"
    assert chinese.on_post_page(html, page, None) == html


def test_formulas_scroll_by_themselves() -> None:
    pytest.importorskip("latex2mathml")
    docstrings = hook("docstrings")
    page = docstrings.rewritten("Sum.\n\n.. math::\n    a + b\n\nMore.")
    assert re.search(r'<div class="formula"><math [^>]*display="block".*</math></div>\n\n', page)
    style = (ROOT / "docs" / "styles" / "extra.css").read_text("utf-8")
    assert re.search(r"\.formula \{[^}]*overflow-x: auto", style)


def test_docstrings_link_to_pages() -> None:
    pytest.importorskip("latex2mathml")
    docstrings = hook("docstrings")
    text = docstrings.rewritten("The table is in docs/viewpoint.md; see docs/guides/recipes.md.")
    title = (ROOT / "docs" / "viewpoint.md").read_text("utf-8").splitlines()[0].lstrip("# ")
    assert text == f"The table is in [{title}](../viewpoint.md); see [Recipes](../guides/recipes.md)."


def test_tables_of_docstrings_are_tables() -> None:
    """Every table in the code keeps its columns, also where a cell is wider than its rule."""
    pytest.importorskip("latex2mathml")
    docstrings, found = hook("docstrings"), 0
    for path in PACKAGE.rglob("*.py"):
        for table in docstrings.TABLE.findall(inspect.cleandoc(path.read_text("utf-8"))):
            found += 1
            head, rule, *rows = docstrings.markdown_table(table).splitlines()
            assert {line.count("|") for line in (head, rule, *rows)} == {head.count("|")}, path
            assert len(rows) == len(table.splitlines()) - 4
            for line, row in zip(table.splitlines()[3:], rows):
                assert re.split("  +", line.rstrip()) == [cell.strip() for cell in row.strip("|").split("|")]
    assert found
    page = docstrings.rewritten(torchcaps.votes.__doc__)
    assert "| `DenseVotes` | every child for every parent | `[N, J, ...]` | 1, N |" in page
    assert "```" not in page


def test_every_public_name_is_on_an_api_page() -> None:
    page = (ROOT / "docs" / "api" / "torchcaps.md").read_text("utf-8")
    assert set(torchcaps.__all__) <= set(re.findall(r"`(\w+)`", page))
    for module in (torchcaps.data, torchcaps.training):  # the lazy ones, whose names the page must list
        name = module.__name__.rpartition(".")[2]
        listed = re.findall(r"^ +- (\w+)$", (ROOT / "docs" / "api" / f"{name}.md").read_text("utf-8"), re.M)
        assert listed == sorted(module.__all__)


def test_navigation_has_every_page() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    listed = set(re.findall(r": ([\w/-]+\.md)$", navigation, re.M))
    pages = {site_path(page) for page in ROOT.glob("docs/**/*.md")}
    pages |= {site_path(page.with_suffix(".md")) for page in ROOT.glob("docs/**/*.ipynb")}  # made by a hook
    assert pages <= listed
    hook = (ROOT / "docs" / "hooks" / "pages.py").read_text("utf-8")
    built = re.findall(r'^    "[\w./]+": "([\w.]+)",$', hook, re.M)
    assert listed - pages == set(built)


def test_the_site_is_built_strictly() -> None:
    command = re.search(r"mkdocs build.*", (ROOT / "Makefile").read_text("utf-8"))
    assert command is not None
    assert command[0].split() == ["mkdocs", "build", "--strict"]  # --quiet hides warnings from --strict


def hook(name: str) -> ModuleType:
    """A hook of the site, which is not part of a package."""
    pytest.importorskip("mkdocs")
    spec = importlib.util.spec_from_file_location(f"hook_{name}", ROOT / "docs" / "hooks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_change_builds_the_site() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert "docs" in re.findall(r"^test:(.*)$", makefile, re.M)[0].split()
    assert "docs/hooks/check.py" in (ROOT / "mkdocs.yml").read_text("utf-8")


def test_dead_links_of_the_built_site_are_found(tmp_path: Path) -> None:
    (tmp_path / "guide").mkdir()
    (tmp_path / "index.html").write_text(
        '<h1 id="top"></h1><a href="guide/#step"></a><a href="#top"></a><a href="https://pytorch.org/x"></a>'
    )
    (tmp_path / "guide" / "index.html").write_text('<h2 id="step"></h2><a href="../"></a>')
    check = hook("check")
    assert check.dead_links(tmp_path) == []
    (tmp_path / "guide" / "index.html").write_text(
        '<a href="../gone/"></a><a href="../#gone"></a><source srcset="x.png">'
    )
    assert check.dead_links(tmp_path) == [
        "index.html: no place guide/#step",
        "guide/index.html: no file ../gone/",
        "guide/index.html: no place ../#gone",
        "guide/index.html: no file x.png",
    ]


def test_public_names_on_no_api_page_are_found(tmp_path: Path) -> None:
    check = hook("check")
    everything = {name for each in check.MODULES for name in importlib.import_module(each).__all__}
    (tmp_path / "a.html").write_text("".join(f'<h2 id="torchcaps.x.{name}">' for name in everything))
    assert check.hidden_names(tmp_path) == []
    (tmp_path / "a.html").write_text(
        "".join(f'<h2 id="torchcaps.x.{name}">' for name in everything - {"register_routing"})
    )
    assert [fault.split()[0] for fault in check.hidden_names(tmp_path)] == [
        "torchcaps.register_routing",
        "torchcaps.routing.register_routing",
    ]


def test_the_comparison_on_record_is_shown(tmp_path: Path) -> None:
    comparison, record = hook("comparison"), tmp_path / "compare.json"
    assert comparison.section(record, tmp_path / "compare.png") == comparison.NONE
    network = {"head": "em", "pose": "matrix", "trunk": "preact", "baseline": False}
    pooled = {"head": "pooled", "pose": None, "trunk": "preact", "baseline": True}
    networks = [network | {"affine": {"mean": 80.04, "sd": 1.0}}, pooled]
    table = {"form": "full", "partial": True, "networks": networks, "cells": {"one": {"seed": 0}}}
    record.write_text(json.dumps(table))
    assert comparison.section(record, tmp_path / "compare.png").splitlines() == [
        "| network | affine (%) |",
        "| --- | --- |",
        "| em, matrix, preact | 80.0 ± 1.0 |",
        "| *average pooling, preact* | – |",
        "",
        "The form `full`, mean ± standard deviation of the seeds. Not all cells are finished: a number "
        "without a deviation is that of one seed, and none has more than 1.",
    ]
    record.write_text(json.dumps(table | {"partial": False}))
    assert comparison.section(record, tmp_path / "compare.png").endswith("deviation of the seeds.\n")
    assert {measure.key: measure.heading for measure in MEASURES} == comparison.COLUMNS


def test_heads_on_all_trunks_are_shown_side_by_side(tmp_path: Path) -> None:
    comparison, record = hook("comparison"), tmp_path / "compare.json"
    assert comparison.trunks(record) == comparison.NONE
    em = {"head": "em", "pose": "matrix", "baseline": False}
    networks = [
        {**em, "trunk": "conv5", "accuracy": {"mean": 88.9, "sd": 1.2}},
        {**em, "trunk": "preact", "accuracy": {"mean": 96.7, "sd": None}},
        {**em, "head": "kmeans", "trunk": "preact", "accuracy": {"mean": 97.7, "sd": 0.1}},
    ]
    record.write_text(json.dumps({"networks": networks}))
    assert comparison.trunks(record, ("accuracy",)).splitlines() == [
        "| head | right (%) | `conv5` | `preact` |",
        "| --- | --- | --- | --- |",
        "| em, matrix | digits | 88.9 ± 1.2 | 96.7 |",
    ]


def test_the_table_of_networks_is_made_from_the_registry() -> None:
    networks = hook("networks")
    heads, _, *rows = [line.strip("| ").split(" | ") for line in networks.table().splitlines()]
    assert [row[0].strip("`") for row in rows] == list_models()
    assert {len(row) for row in rows} == {len(heads)}
    cells = {row[0].strip("`"): dict(zip(heads, row)) for row in rows}
    assert cells["capsnet"]["parameters"] == "8,215,568"
    assert cells["capsnet"]["`routing=`"] == "yes; `dynamic`"
    assert cells["norb_cnn"]["`routing=`"] == "no"
    assert cells["heinsen_capsnet"]["smallest image"] == "29×29"
    assert cells["heinsen_capsnet"]["parameters"].endswith(" at 29×29")
    assert "Gu, Tresp 2020" in cells["aff_capsnet"]["network"]
    assert networks.MARK in (ROOT / "docs" / "api" / "models.md").read_text("utf-8")
