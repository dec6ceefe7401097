"""The pages in docs/ agree with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from torchcaps import list_pose_spaces, list_routings

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "torchcaps"
DESIGN = ROOT / "docs" / "design.md"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob(".github/**/*.md")])


def section(heading: str) -> str:
    """The text of one section of the design page."""
    _, _, rest = DESIGN.read_text(encoding="utf-8").partition(f"\n{heading}\n")
    assert rest, f"docs/design.md has no section {heading!r}"
    return re.split(r"\n#{1,3} ", rest)[0]


def first_column(heading: str) -> set[str]:
    return set(re.findall(r"^\| `([^`]+)`", section(heading), flags=re.MULTILINE))


def test_design_lists_every_package_and_module() -> None:
    public = [path for path in PACKAGE.iterdir() if not path.name.startswith(("_", "."))]
    folders = {f"{path.name}/" for path in public if path.is_dir() and any(path.iterdir())}
    modules = {path.name for path in public if path.suffix == ".py"}
    assert first_column("## Packages") == folders | modules


def test_design_lists_every_environment_variable() -> None:
    used: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        used |= set(re.findall(r"TORCHCAPS_[A-Z_]+[A-Z]", path.read_text(encoding="utf-8")))
    assert used
    assert used <= first_column("## Environment variables")


def test_design_lists_every_pose_space_and_routing() -> None:
    assert first_column("### Pose spaces") == set(list_pose_spaces())
    assert first_column("### Routing") == set(list_routings())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_are_valid(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_programs_of_the_export_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxscript")
    page = ROOT / "docs" / "export.md"
    text = page.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "export"}
    blocks = list(re.finditer(r"```python\n(.*?)```", text, flags=re.DOTALL))
    assert len(blocks) == 5
    for block in blocks:
        lines_before = text[: block.start(1)].count("\n")  # so that a traceback shows the right line
        exec(compile("\n" * lines_before + block[1], str(page), "exec"), names)
    assert names["description"]["classes"] == [str(digit) for digit in range(10)]  # type: ignore[index]
    assert (tmp_path / "digits-capsnet" / "README.md").is_file()


def test_the_program_of_the_page_on_scikit_learn_runs(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn", minversion="1.6")
    [program] = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "sklearn.md").read_text("utf-8"), flags=re.DOTALL
    )
    exec(program, {"__name__": "program"})
    accuracy, _, on_poses = capsys.readouterr().out.splitlines()
    assert float(accuracy.split()[0]) > 0.9
    assert float(on_poses) > 0.9


def test_the_program_of_the_page_on_sweeps_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8")
    [program] = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    exec(program, {"__name__": "program"})
    assert list((tmp_path / "runs" / "tracked" / "tensorboard").iterdir())
