"""The oldest typer that pyproject.toml allows shows the same help."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_oldest_typer_shows_the_same_help(tmp_path: Path) -> None:
    found = re.search(r'"typer>=([\d.]+)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    assert found is not None
    version = found[1] if found[1].count(".") > 1 else f"{found[1]}.0"
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--target", tmp_path, f"typer=={version}"]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip(f"typer {version} cannot be fetched here")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT / "src")))}
    # Nothing may depend on which typer the parent process has imported.
    script = (
        "import sys, typer, pytest; assert typer.__version__ == sys.argv[1]; "
        "sys.exit(pytest.main(sys.argv[2:]))"
    )
    tests = ["-p", "no:cacheprovider", str(Path(__file__).with_name("test_help.py"))]
    done = subprocess.run(
        [sys.executable, "-c", script, version, *tests],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
