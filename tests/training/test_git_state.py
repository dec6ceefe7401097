"""What a run writes about the checkout it was started in."""

import shutil
import subprocess
from pathlib import Path

import pytest

from torchcaps.training.run import git_state

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one commit: a program and a record."""
    for name in ("src/program.py", "claims/record.json"):
        path = tmp_path / name
        path.parent.mkdir()
        path.write_text("1")
    author = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "First"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    return tmp_path


def test_only_changes_of_the_code_count(checkout: Path) -> None:
    clean = git_state(checkout)
    assert clean is not None
    assert len(clean["commit"]) == 40
    assert not clean["changed"]
    (checkout / "claims/record.json").write_text("2")  # as `reproduce --record` does
    assert git_state(checkout) == clean
    (checkout / "src/program.py").write_text("2")
    assert git_state(checkout) == {**clean, "changed": True}


def test_an_installed_package_has_no_state(tmp_path: Path) -> None:
    assert git_state(tmp_path) is None
