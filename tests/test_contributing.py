"""Every program in CONTRIBUTING.md runs, and the configuration around the code is valid."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from hypothesis import settings

from support import layers as builders

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
CONFIGURATION = sorted(
    [*ROOT.glob(".github/**/*.yml"), ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff"], key=str
)
# Each program is under a heading such as "### A routing".
PROGRAMS = dict(
    re.findall(r"^### (An? [^\n]+)\n.*?```python\n(.*?)```", PAGE.read_text("utf-8"), re.M | re.S)
)


def test_every_part_has_a_program() -> None:
    assert list(PROGRAMS) == ["A routing", "A pose space", "A model", "A data set", "A claim"]
    assert len(PROGRAMS) == PAGE.read_text("utf-8").count("```python")


@pytest.mark.parametrize("part", PROGRAMS)
def test_program_runs(part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text("utf-8")
    lines_before = text[: text.index(PROGRAMS[part])].count("\n")  # so that a traceback shows the right line
    code = compile("\n" * lines_before + PROGRAMS[part], str(PAGE), "exec")
    exec(code, {"__name__": f"contributing.{part.replace(' ', '_')}"})


def test_make_targets_of_the_page_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    commands = re.findall(r"^make ([a-z-]+)", PAGE.read_text("utf-8"), re.M)
    assert commands
    for target in commands:
        assert re.search(rf"^{target}:", makefile, re.M), f"the Makefile has no target {target}"


def test_paths_of_the_makefile_exist() -> None:
    paths = re.findall(r"(?:tests|src)/[\w/.]+", (ROOT / "Makefile").read_text("utf-8"))
    assert len(paths) > 10
    for path in paths:
        assert (ROOT / path).exists(), f"the Makefile names {path}"


def test_slow_profile_takes_many_random_examples() -> None:
    slow = settings.get_profile("slow")
    assert slow.max_examples == 200
    assert not slow.derandomize
    assert "HYPOTHESIS_PROFILE=slow" in (ROOT / "Makefile").read_text("utf-8")


def test_property_tests_follow_the_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    for profile in ("slow", "quick"):
        monkeypatch.setenv("HYPOTHESIS_PROFILE", profile)
        assert importlib.reload(builders).FEW.max_examples == settings.get_profile(profile).max_examples


@pytest.mark.parametrize("path", CONFIGURATION, ids=lambda path: str(path.relative_to(ROOT)))
def test_configuration_is_valid_yaml(path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    content = yaml.safe_load(path.read_text("utf-8"))
    assert isinstance(content, dict)
    if path.parent.name == "workflows":
        # YAML 1.1 reads the key "on" as true.
        assert {"name", "jobs", True} <= set(content)
        for job in content["jobs"].values():
            assert job["steps"]


def test_pre_commit_hooks_and_workflows_call_existing_targets() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for path in CONFIGURATION:
        for targets in re.findall(r"(?:run|entry): make ([a-z -]+)", path.read_text("utf-8")):
            for target in targets.split():
                assert re.search(rf"^{target}:", makefile, re.M), f"{path.name}: no target {target}"


def test_citation_has_the_version_of_the_changelog() -> None:
    version = re.search(r"^## \[([\d.]+)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert version is not None
    assert f"\nversion: {version[1]}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
