"""The source distribution and the wheel: what is in them, and that they work without a compiler."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import torchcaps

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution, and a wheel that was built from it."""
    out = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", out, ROOT], check=True, capture_output=True)
    return out


def test_the_source_distribution_has_tests_docs_and_pages(dist: Path) -> None:
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    wanted = {
        name
        for name in listed.splitlines()
        if name.startswith(("src/", "tests/", "docs/", "recipes/", "benchmarks/", "claims/", "results/"))
        and not name.startswith("claims/networks/")  # a claim trains those that are missing
    }
    assert wanted <= names, sorted(wanted - names)[:20]
    assert not [name for name in names if name.endswith((".so", ".pyc")) or "node_modules" in name]


def test_the_wheel_has_data_files_and_one_version(dist: Path) -> None:
    (archive,) = dist.glob("*.whl")
    with zipfile.ZipFile(archive) as file:
        names = set(file.namelist())
        (metadata,) = (name for name in names if name.endswith("METADATA"))
        text = file.read(metadata).decode()
    for source in ("lab/static", "weights", "lab/assets"):
        for path in (ROOT / "src" / "torchcaps" / source).rglob("*"):
            assert path.is_dir() or path.relative_to(ROOT / "src").as_posix() in names
    assert "torchcaps/recipes/mnist-capsnet.toml" in names
    assert f"\nVersion: {torchcaps.__version__}\n" in text


def test_links_of_the_description_are_absolute(dist: Path) -> None:
    (archive,) = dist.glob("*.whl")
    with zipfile.ZipFile(archive) as file:
        (metadata,) = (name for name in file.namelist() if name.endswith("METADATA"))
        text = file.read(metadata).decode()
    targets = re.findall(r"\]\(([^)\s]+)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    assert len(targets) > 10
    assert not [target for target in targets if not target.startswith(("https://", "#"))]


def test_a_machine_without_a_compiler_gets_the_plain_form(dist: Path, tmp_path: Path) -> None:
    """The build does not fail, and what it makes computes."""
    (archive,) = dist.glob("*.tar.gz")
    (tmp_path / "empty").mkdir()
    environment = {"PATH": str(tmp_path / "empty"), "CC": "no-compiler", "CXX": "no-compiler", "HOME": "/"}
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--target", tmp_path / "site", archive]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    code = """
import torch, torchcaps
from torchcaps import kernels
assert not kernels.status().built, kernels.status()
print(torchcaps.create_model("matrix_capsnet_small")(torch.rand(2, 1, 32, 32)).scores.shape)
print(torchcaps.__file__)
"""
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(tmp_path / "site"), "PATH": "/usr/bin:/bin"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert "torch.Size([2, 10])" in ran.stdout
    assert str(tmp_path / "site") in ran.stdout
    shutil.rmtree(tmp_path / "site")
