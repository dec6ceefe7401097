"""`torchcaps --import`: modules of a user, outside the tree."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from torchcaps.cli.app import COMMANDS

Run = Callable[..., None]
SOURCE = Path(__file__).parents[2] / "src"
MODELS = """
from torch import nn
from torchcaps import Capsules, SharedCaps
from torchcaps.models import register_model
from torchcaps.poses import VectorPose, register_pose_space
from torchcaps.routing import DynamicRouting, register_routing


@register_routing("my_routing")
class MyRouting(DynamicRouting):
    pass


@register_pose_space("my_pose")
class MyPose(VectorPose):
    def compose(self, pose, weight):
        return super().compose(pose, weight).sin()


@register_model(recipe={"loss": {"name": "cross_entropy"}})
class my_capsnet(nn.Module):
    def __init__(self, num_classes, in_channels, image_size, routing="dynamic"):
        super().__init__()
        self.features = nn.Conv2d(in_channels, 8, 5, stride=4)
        self.drop = nn.Dropout(0.1)
        self.classes = SharedCaps(8, num_classes, 4, pose="my_pose", routing=routing)

    def forward(self, images):
        places = self.drop(self.features(images)).flatten(2).transpose(1, 2)
        return self.classes(Capsules.from_vectors(places)).logits
"""
DATA = """
import torch
from torchcaps.data import register_dataset
from torchcaps.data.imageset import ImageSet


@register_dataset("my_stripes")
def my_stripes(split="train", *, data_dir=None):
    labels = torch.arange(20) % 2
    images = torch.zeros(20, 1, 16, 16, dtype=torch.uint8)
    images[labels == 0, :, ::4] = 255
    images[labels == 1, :, :, ::4] = 255
    return ImageSet(images, labels, ("rows", "columns"))
"""
TRAIN = ["train", "--model", "my_capsnet", "--data", "my_stripes", "--epochs", "2"]
TRAIN += ["--set", "training.batch_size=4", "--set", "model.options.routing=my_routing"]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package that registers a model, a routing and a data set."""
    folder = tmp_path / "my_capsules"
    folder.mkdir()
    (folder / "__init__.py").write_text("from my_capsules import data, models\n")
    (folder / "models.py").write_text(MODELS)
    (folder / "data.py").write_text(DATA)
    return folder


def torchcaps(*words: str, code: int = 0, launcher: tuple[str, ...] = ()) -> str:
    """Run the command in a process of its own; returns what it printed."""
    done = subprocess.run(
        [sys.executable, *launcher, "-m", "torchcaps", *words],
        env={**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@pytest.mark.usefixtures("package")
def test_what_a_package_registers_can_be_trained_resumed_and_evaluated() -> None:
    torchcaps("--import", "my_capsules", *TRAIN, "--out", "whole")
    torchcaps("--import", "my_capsules", *TRAIN, "--out", "mine", "--budget", "0s")
    assert 0 < json.loads(Path("mine/result.json").read_text())["step"] < 10
    resume = ["train", "--resume", "--out", "mine"]
    hint = "The run was started with --import my_capsules: write this here too"
    assert hint in torchcaps(*resume, code=2)
    torchcaps("--import", "my_capsules", *resume)
    result = json.loads(Path("mine/result.json").read_text())
    assert (result["status"], result["step"]) == ("ended", 10)
    weights, wanted = (load_file(f"{run}/last.safetensors") for run in ("mine", "whole"))
    assert weights.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert torch.equal(weights[name], tensor), name
    assert hint in torchcaps("evaluate", "mine", code=1)
    assert '"count": 20' in torchcaps("--import", "my_capsules", "evaluate", "mine", "--json")


RECIPE = """
[model]
name = "capsnet_small"
options = { routing = "my_topk" }
[data]
name = "digits"
options = { size = 20 }
"""
STARTED = "The run was started with --import my_topk.py: write this here too"
OWN = "If it is your own, import the module that registers it first (on the command line: --import FILE.py)."


@pytest.fixture
def _run_of_an_own_routing() -> None:
    """Files of a run that was started with --import; its folder has the name of a run without --out."""
    folder = Path("runs/digits-capsnet_small")
    folder.mkdir(parents=True)
    (folder / "recipe.toml").write_text(RECIPE)
    command = ["torchcaps", "--import", "my_topk.py", "train"]
    (folder / "environment.json").write_text(json.dumps([{"command": command}]))


@pytest.mark.usefixtures("_run_of_an_own_routing")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("train --resume --out runs/digits-capsnet_small", "unknown routing 'my_topk'"),
        ("train --resume", "unknown routing 'my_topk'"),
        ("train --resume --out runs/digits-capsnet_small --data-dir .", "unknown routing 'my_topk'"),
        ("train --resume --set optimizer.lrr=1", "did you mean 'optimizer.lr'?"),
        ("export runs/digits-capsnet_small --out x.bin", "unknown format 'bin'"),
        ("train --model capsnet_small --data digits -s model.options.routing=my_topk", "unknown routing"),
        ("train --model capsnet_small --data my_data", "unknown data set 'my_data'"),
        ("train --model my_net --data digits", "unknown model 'my_net'"),
    ],
)
def test_only_an_unknown_name_of_the_named_run_tells_its_imports(
    words: str, says: str, run: Run, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered = "--set" not in words and not words.startswith("export")
    own = registered and "--resume" not in words
    run(*words.split(), code=2)
    error = capsys.readouterr().err
    assert says in error
    assert (STARTED in error, OWN in error) == (registered and not own, own)
    # What was imported already is not asked for again.
    monkeypatch.setitem(sys.modules, "my_topk", sys)
    run(*words.split(), code=2)
    error = capsys.readouterr().err
    assert (STARTED in error, OWN in error) == (False, registered)


@pytest.mark.slow
@pytest.mark.usefixtures("package")
def test_every_process_of_torchrun_imports_the_package() -> None:
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    assert "2 × cpu" in torchcaps("--import", "my_capsules", *TRAIN, "--out", "mine", launcher=launcher)


@pytest.fixture
def _own_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As for the console script, the working directory is not on the path; imports are undone."""
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    before = set(sys.modules)
    yield
    for name in ("first", "beside", "second", "broken_module"):
        sys.modules.pop(name, None)
    assert not any(name.startswith("not_there") for name in set(sys.modules) - before)


@pytest.mark.usefixtures("_own_path")
def test_files_and_modules_can_be_imported_together(run: Run, capsys: pytest.CaptureFixture) -> None:
    Path("first.py").write_text("import beside\nprint('first', beside.NAME)\n")
    Path("beside.py").write_text("NAME = 'beside'\n")
    Path("elsewhere").mkdir()
    Path("elsewhere/second.py").write_text("print('second')\n")
    run("--import", "first", "--import", "elsewhere/second.py", "--import", "first.py", "data")
    assert capsys.readouterr().out.startswith("first beside\nsecond\n")


@pytest.mark.parametrize("command", [each.__name__ for each in COMMANDS])
def test_every_command_has_the_option_on_both_sides(
    command: str, run: Run, capsys: pytest.CaptureFixture
) -> None:
    for words in (["--import", "not_there", command], [command, "--import", "not_there"]):
        needed = {"export": "x --out x.pt2", "predict": "x", "parse": "x", "serve": "x", "size": "x"}
        run(*words, *needed.get(command, "").split(), code=2)
        assert "--import not_there: there is no module 'not_there'" in capsys.readouterr().err
    run(command, "--help")
    assert "--import" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.usefixtures("package")
def test_a_sweep_and_an_export_know_what_a_package_registers() -> None:
    words = [*TRAIN[1:], "--grid", "optimizer.lr=0.01,0.02", "--seeds", "1", "--out", "mine"]
    torchcaps("sweep", "--import", "my_capsules", *words)
    [run, _] = sorted(Path("mine").glob("lr=*/seed-0"))
    torchcaps("export", str(run), "--import", "my_capsules", "--out", "mine.pt2")
    assert Path("mine.pt2").is_file()


@pytest.mark.usefixtures("_own_path")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import torch\nundefined\n", "NameError in {file}, line 2: name 'undefined' is not defined"),
        ("def f(:\n", "SyntaxError in {file}, line 1: invalid syntax"),
        ("import not_installed\n", "ModuleNotFoundError in {file}, line 1: No module named 'not_installed'"),
        (
            "from torchcaps.data import register_dataset\nregister_dataset('mnist')(print)\n",
            "ValueError in {file}, line 2: data set 'mnist' is registered already",
        ),
    ],
)
@pytest.mark.parametrize("name", ["broken_module", "broken_module.py"])
def test_an_error_in_a_module_is_named_with_its_line(
    name: str, text: str, message: str, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    file = tmp_path / "broken_module.py"
    file.write_text(text)
    run("--import", name, "models", code=2)
    error = capsys.readouterr().err
    assert error == f"torchcaps: --import {name}: {message.format(file=file)}\n"


@pytest.mark.usefixtures("_own_path")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--import", "not_there", "models"], "there is no module 'not_there'"),
        (["--import", "not_there.models", "models"], "there is no module 'not_there'"),
        (["--import", "not_there.py", "models"], "there is no file not_there.py"),
        (["--import", "torch.py", "models"], "the name 'torch' belongs to another module"),
        (["models", "--import", "not_there"], "there is no module 'not_there'"),
    ],
)
def test_a_wrong_import_is_named(
    words: list[str], message: str, run: Run, capsys: pytest.CaptureFixture
) -> None:
    Path("torch.py").write_text("")
    run(*words, code=2)
    assert message in capsys.readouterr().err
