"""What `import torchcaps` loads, and what works with torch, numpy and safetensors alone."""

import re
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

import torchcaps
from torchcaps._extras import require

ROOT = Path(__file__).parents[1]
HEAVY = ["accelerate", "matplotlib", "sklearn", "scipy", "PIL", "typer", "rich", "safetensors"]

# Run before a script: every package that the core does not need is as if it were not installed.
CORE_ONLY = """
import sys
from importlib.machinery import PathFinder
class CoreFinder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {hidden!r} else super().find_spec(name, path, target)
sys.meta_path[:] = [CoreFinder if finder is PathFinder else finder for finder in sys.meta_path]
"""

# Imports every module; prints those that fail with anything but the sentence about an extra.
IMPORT_ALL = """
import importlib
for name in {names!r}:
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(name, "|", error)
"""


@cache
def core_only() -> str:
    """Python code that hides all packages but torch, numpy, safetensors and what these require."""
    projects, waiting = set(), ["torch", "numpy", "safetensors"]
    while waiting:
        project = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if project in projects:
            continue
        projects.add(project)
        try:
            requirements = metadata.requires(project) or []
        except metadata.PackageNotFoundError:  # for another platform
            continue
        waiting += [re.split(r"[^\w.-]", each)[0] for each in requirements if "extra ==" not in each]
    hidden = {
        module
        for module, owners in metadata.packages_distributions().items()
        if not projects & {re.sub(r"[-_.]+", "-", owner).lower() for owner in owners}
    }
    return CORE_ONLY.format(hidden=hidden - {"torchcaps"})


def run_core_only(script: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", core_only() + script]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def module_names() -> list[str]:
    """Every module of the package, by file."""
    source = Path(torchcaps.__file__).parent
    files = sorted(source.rglob("*.py"))
    names = (".".join(("torchcaps", *file.relative_to(source).with_suffix("").parts)) for file in files)
    return [name.removesuffix(".__init__") for name in names]


def test_heavy_parts_load_only_where_they_are_used() -> None:
    script = (
        "import sys, torch; before = set(sys.modules); import torchcaps; "
        f"print([name for name in {HEAVY} if name in sys.modules and name not in before])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names_exist() -> None:
    assert all(hasattr(torchcaps, name) for name in torchcaps.__all__)


@pytest.mark.parametrize("name", ["accelerate", "matplotlib", "PIL", "rich", "scipy", "sklearn", "typer"])
def test_core_only_hides_the_extras(name: str) -> None:
    assert repr(name) in core_only()


def test_capsule_layers_and_models_need_the_core_alone() -> None:
    done = run_core_only(
        """
import torch
from torchcaps import DenseCaps, create_model, margin_loss
from torchcaps.attacks import fgsm
from torchcaps.testing import assert_couplings_normalized

layer = DenseCaps(6, 8, 3, 16, routing="dynamic")
capsules = layer(torch.randn(2, 6, 8))
margin_loss(capsules.activation, torch.tensor([0, 2])).backward()
assert layer.weight.grad.abs().sum() > 0
model = create_model("shared_capsnet", pretrained="mnist")
fgsm(model, torch.rand(1, 1, 28, 28), torch.tensor([3]), 0.1)
print("works")
"""
    )
    assert done.stdout == "works\n", done.stderr


def test_a_module_that_needs_an_extra_says_which() -> None:
    done = run_core_only(IMPORT_ALL.format(names=module_names()))
    assert done.returncode == 0, done.stderr
    failed = dict(line.split(" | ") for line in done.stdout.splitlines())
    sentence = re.compile(r"""[\w' ]+ needs the extra '(\w+)': pip install "torchcaps\[\1\]\"""")
    assert not [line for line in failed.items() if not sentence.fullmatch(line[1])]
    assert {name.split(".")[1] for name in failed} <= {"cli", "kernels", "lab", "serve", "sklearn", "web"}
    assert {"torchcaps.cli.train", "torchcaps.lab.server"} <= set(failed)


@pytest.mark.parametrize(
    ("call", "extra"),
    [
        ("from torchcaps.training.distributed import make_accelerator as f; f('fp32')", "train"),
        ("from torchcaps.demo import run_demo as f; f()", "train"),
    ],
)
def test_a_function_that_needs_an_extra_says_which(call: str, extra: str) -> None:
    done = run_core_only(call)
    assert f"needs the extra '{extra}': pip install \"torchcaps[{extra}]\"" in done.stderr.splitlines()[-1]


def test_what_an_installed_package_lacks_is_another_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_package.py").write_text("import something_else")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="something_else"):
        require("broken_package", extra="train", purpose="this test")


@pytest.mark.parametrize("words", [["--help"], ["train"], []])
def test_the_command_without_its_extra_is_one_sentence(words: list[str]) -> None:
    done = run_core_only(f"sys.argv[1:] = {words!r}\nfrom torchcaps.__main__ import main\nmain()")
    assert done.stderr == (
        "torchcaps: the command line needs the extra 'train': pip install \"torchcaps[train]\"\n"
    )
    assert done.returncode == 1


def test_the_version_is_written_once() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'dynamic = ["version", "readme"]' in text
    assert torchcaps.__version__ not in text


def test_dir_lists_public_names_and_modules() -> None:
    """What completion in an interactive session offers."""
    listed = dir(torchcaps)
    assert set(torchcaps.__all__) <= set(listed)
    assert {"layers", "routing", "kernels", "data", "testing"} <= set(listed)
    assert not [name for name in listed if name.startswith("_")]
    assert all(getattr(torchcaps, name) is not None for name in ("layers", "losses", "routing"))
