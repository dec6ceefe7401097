"""Any module, any data set: the engine of recipes trains what it is given."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset

import torchcaps
from support.tiny_runs import child_environment, records_of, weights_of
from torchcaps.data import load
from torchcaps.errors import RunError
from torchcaps.models.weights import load_file_into, load_weights
from torchcaps.training import Callback, Predictor, Recipe, evaluate, fit, load_recipe, train
from torchcaps.training.checkpoint import Position


class Net(nn.Module):
    """A user's module, with nothing of torchcaps in it."""

    def __init__(self, classes: int = 4, side: int = 6) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(side * side, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1)
        )
        self.head = nn.Linear(16, classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.layers(images))


class Corners(Dataset):
    """A user's data set: one corner of a noisy image is bright, and which one is the label."""

    def __init__(self, count: int = 150, kind: str = "float", jitter: bool = False) -> None:
        self.count, self.kind, self.jitter = count, kind, jitter

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        generator = np.random.default_rng(index)
        label = int(generator.integers(4))
        image = generator.random((6, 6), dtype=np.float32) * 0.5
        rows, columns = (slice(0, 3) if bit else slice(3, 6) for bit in (label & 1, label & 2))
        image[rows, columns] += 0.5
        if self.jitter:
            image = image * (0.7 + 0.1 * random.random() + 0.1 * float(torch.rand(()) + np.random.rand()))
        pixels = (image * 255).astype(np.uint8)
        forms = {
            "float": lambda: torch.from_numpy(image).unsqueeze(0),
            "uint8": lambda: torch.from_numpy(pixels).unsqueeze(0),
            "array": lambda: pixels[:, :, None],
            "pil": lambda: Image.fromarray(pixels),
        }
        return forms[self.kind](), label


def new_net(**options: Any) -> Net:
    torch.manual_seed(3)
    return Net(**options)


QUICK: dict[str, Any] = {"epochs": 2, "batch_size": 64, "lr": 0.01}


@pytest.mark.parametrize("kind", ["float", "uint8", "array", "pil"])
def test_a_plain_module_learns_from_a_plain_data_set(tmp_path: Path, kind: str) -> None:
    net = new_net()
    result = torchcaps.fit(net, Corners(300, kind), Corners(100, kind), out=tmp_path, **QUICK | {"epochs": 6})
    assert result["status"] == "ended"
    assert result["metrics"]["test"]["accuracy"] > 0.9
    assert evaluate(net, Corners(100, kind)).accuracy == result["metrics"]["test"]["accuracy"]
    recipe = Recipe.from_file(tmp_path / "recipe.toml")
    assert (recipe.model.name, recipe.data.name) == ("object:Net", "object:Corners")
    assert recipe.data.options == {"images": 300, "shape": [1, 6, 6]}
    assert {"metrics.jsonl", "environment.json", "result.json"} <= {path.name for path in tmp_path.iterdir()}


def test_the_weights_load_into_the_users_module_only(tmp_path: Path) -> None:
    net = new_net()
    fit(net, Corners(), out=tmp_path, **QUICK)
    again = load_file_into(Net(), tmp_path / "last.safetensors")
    for name, tensor in net.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    for load_run in (load_weights, Predictor.load):
        with pytest.raises(
            RunError, match=r"Net, which cannot be built by name.*torchcaps\.training\.load_into\(model, "
        ):
            load_run(tmp_path / "last.safetensors")
    with pytest.raises(RunError, match="does not fit Net"):
        load_file_into(Net(classes=7), tmp_path / "last.safetensors")
    with pytest.raises(ValueError, match=r"was given to torchcaps\.fit as an object"):
        train(load_recipe(str(tmp_path / "recipe.toml")), tmp_path, resume=True)


def test_image_sets_and_models_of_torchcaps_train_as_with_a_recipe(tmp_path: Path) -> None:
    table = {
        "model": {"name": "pooled_cnn", "options": {"stages": [[4], [4]]}},
        "data": {"name": "digits", "preprocess": {"translate": 1}},
        "loss": {"name": "margin"},
        "training": {"epochs": 1, "batch_size": 256},
    }
    by_recipe = train(Recipe.from_table(table), tmp_path / "recipe")
    torch.manual_seed(0)
    model = torchcaps.create_model("pooled_cnn", image_size=8, stages=[[4], [4]])
    options = {"loss": "margin", "preprocess": {"translate": 1}, "epochs": 1, "batch_size": 256}
    by_objects = fit(model, load("digits"), load("digits", "test"), out=tmp_path / "objects", **options)
    assert by_objects["metrics"] == by_recipe["metrics"]
    for name, tensor in weights_of(tmp_path / "recipe").items():
        assert torch.equal(weights_of(tmp_path / "objects")[name], tensor), name


@pytest.mark.parametrize("workers", [0, 2])
def test_a_resumed_run_ends_bitwise_as_one_that_never_stopped(tmp_path: Path, workers: int) -> None:
    class Interrupt(Callback):
        def on_step_end(self, position: Position, totals: Tensor) -> None:
            if (position.epoch, position.batch) == (1, 2):
                signal.raise_signal(signal.SIGTERM)

    options: dict[str, Any] = {**QUICK, "ema_decay": 0.9, "preprocess": {"translate": 1}, "val_fraction": 0.2}
    options |= {"num_workers": workers, "batch_size": 30}
    data = Corners(jitter=True)
    first = fit(new_net(), data, out=tmp_path / "stopped", callbacks=[Interrupt()], **options)
    assert (first["status"], first["step"]) == ("interrupted", 6)
    random.seed(9)  # what is drawn between the sessions does not matter
    fit(Net(), data, out=tmp_path / "stopped", resume=True, **options)
    fit(new_net(), Corners(jitter=True), out=tmp_path / "whole", **options | {"num_workers": 0})
    for file in ("last", "best", "state"):
        whole, resumed = weights_of(tmp_path / "whole", file), weights_of(tmp_path / "stopped", file)
        assert whole.keys() == resumed.keys()
        for name, tensor in whole.items():
            assert torch.equal(tensor, resumed[name]), f"{file}: {name}"
    assert records_of(tmp_path / "stopped") == records_of(tmp_path / "whole")


def test_a_run_resumes_with_the_same_data_and_model_only(tmp_path: Path) -> None:
    fit(new_net(), Corners(), out=tmp_path, **QUICK)
    with pytest.raises(ValueError, match="already holds a run"):
        fit(new_net(), Corners(), out=tmp_path, **QUICK)
    with pytest.raises(ValueError, match=r"keeps its recipe, but data.options"):
        fit(new_net(), Corners(149), out=tmp_path, resume=True, **QUICK)
    wider = Net()
    wider.layers[1] = nn.Linear(36, 16, bias=False)
    with pytest.raises(RunError, match="state of another model"):
        fit(wider, Corners(), out=tmp_path, resume=True, **QUICK)


def test_nothing_is_tested_without_test_images(tmp_path: Path) -> None:
    result = fit(new_net(), Corners(), out=tmp_path / "none", **QUICK)
    assert result["metrics"] == {}
    assert result["model"] == "last.safetensors"
    assert all("test" not in record for record in records_of(tmp_path / "none"))
    held_out = fit(new_net(), Corners(), out=tmp_path / "held", val_fraction=0.2, **QUICK)
    assert held_out["metrics"]["validation"]["count"] == 30
    assert held_out["model"] == "best.safetensors"


def test_a_custom_loss_gets_what_the_model_returned(tmp_path: Path) -> None:
    named = fit(new_net(), Corners(), Corners(40), out=tmp_path / "named", **QUICK)
    own = fit(
        new_net(), Corners(), Corners(40), out=tmp_path / "own", loss=nn.functional.cross_entropy, **QUICK
    )
    assert own["metrics"] == named["metrics"]
    assert own["recipe"]["loss"]["name"] == "object:cross_entropy"
    with pytest.raises(ValueError, match="the loss must be one number"):
        fit(new_net(), Corners(), out=tmp_path / "wide", loss=lambda output, labels: output, **QUICK)


def test_other_settings_come_from_a_recipe(tmp_path: Path) -> None:
    tables = {"schedule": {"name": "cosine"}, "training": {"epochs": 9}, "data": {"limit": 64}}
    result = fit(new_net(), Corners(), out=tmp_path / "a", recipe=tables, **QUICK)
    assert result["recipe"]["schedule"]["name"] == "cosine"
    assert (result["epochs"], result["step"]) == (2, 2)
    recipe = load_recipe("mnist-shared-capsnet").override(["training.precision=fp32"])
    result = fit(new_net(), Corners(), out=tmp_path / "b", recipe=recipe, preprocess={}, epochs=1)
    assert (result["recipe"]["loss"]["absent_weight"], result["recipe"]["model"]["name"]) == (
        0.25,
        "object:Net",
    )
    with pytest.raises(ValueError, match=r"did you mean 'schedule\.name'"):
        fit(new_net(), Corners(), out=tmp_path / "c", recipe={"schedule": {"nam": "cosine"}})
    with pytest.raises(ValueError, match="no table 'model'"):
        fit(new_net(), Corners(), out=tmp_path / "c", recipe={"model": {"name": "capsnet"}})
    with pytest.raises(ValueError, match=r"data\.name has no meaning"):
        fit(new_net(), Corners(), out=tmp_path / "c", recipe={"data": {"name": "mnist"}})


def test_lazy_and_tied_and_frozen_parameters(tmp_path: Path) -> None:
    lazy = nn.Sequential(nn.Flatten(), nn.LazyLinear(8), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 4))
    lazy[3].weight = lazy[2].weight
    lazy[4].requires_grad_(False)
    before = lazy[4].weight.clone()
    assert fit(lazy, Corners(), out=tmp_path, **QUICK)["status"] == "ended"
    assert torch.equal(lazy[4].weight, before)
    with pytest.raises(ValueError, match="nothing to train"):
        fit(nn.Flatten(), Corners(), out=tmp_path / "none")
    with pytest.raises(ValueError, match="all parameters are frozen"):
        fit(new_net().requires_grad_(False), Corners(), out=tmp_path / "none")


def test_normalized_images_are_taken_as_they_are(tmp_path: Path) -> None:
    """Data sets often subtract a mean and divide by a deviation themselves."""
    few = [((image - 0.5) * 4, label) for image, label in (Corners()[index] for index in range(40))]
    net = new_net()
    fit(net, few, out=tmp_path, **QUICK)
    expected = net.eval()(torch.stack([image for image, _ in few])).argmax(1)
    right = (expected == torch.tensor([label for _, label in few])).double().mean().item()
    assert evaluate(net, few).accuracy == pytest.approx(right)


def test_known_labels_are_all_checked(tmp_path: Path) -> None:
    class Named(Corners):
        classes = ("a", "b", "c", "d")

    data = Named()
    data.targets = [data[index][1] for index in range(len(data))]
    result = fit(new_net(), data, out=tmp_path / "a", recipe={"data": {"limit_per_class": 8}}, **QUICK)
    assert result["step"] == 2
    data.targets[77] = 4
    with pytest.raises(ValueError, match="labels of the data set go from 0 to 4, but there are 4 classes"):
        fit(new_net(), data, out=tmp_path / "b", **QUICK)


class Pairs(Corners):
    """Two labels per image, the second one always 0."""

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image, label = super().__getitem__(index)
        return image, torch.tensor([label, 0])


def test_several_labels_per_image(tmp_path: Path) -> None:
    result = fit(new_net(), Pairs(), Pairs(40), out=tmp_path, loss="margin", **QUICK)
    assert 0 < result["metrics"]["test"]["accuracy"] <= 1


class Wrong(Corners):
    """Items with a fault."""

    def __init__(self, item: Any, at: int = 0) -> None:
        super().__init__()
        self.item, self.at = item, at

    def __getitem__(self, index: int) -> Any:
        return self.item if index >= self.at else super().__getitem__(index)


class TwoOutputs(Net):
    def forward(self, images: Tensor) -> Any:
        return super().forward(images), images


class Stream(IterableDataset):
    def __iter__(self) -> Any:
        return iter([(torch.zeros(1, 6, 6), 0)])


IMAGE = torch.zeros(1, 6, 6)


@pytest.mark.parametrize(
    ("model", "data", "message"),
    [
        (Net(), Wrong(("cat.png", 1)), "item 0: an image must be a tensor, a PIL image or an array, got str"),
        (Net(), Wrong("cat.png"), r"must give pairs \(image, label\), got str"),
        (Net(), Wrong((IMAGE, "cat")), "a label must be a whole number, or K of them, got 'cat'"),
        (Net(), Wrong((IMAGE, 0.5)), "a label must be a whole number"),
        (Net(), Wrong((IMAGE, 4)), "the label is 4, but there are 4 classes, numbered from 0 to 3"),
        (Net(), Wrong((IMAGE, -1), at=100), "the label is -1"),
        (Net(), Wrong((IMAGE[0], 1)), r"an image must be \[C, H, W\], got \[6, 6\]"),
        (Net(), Wrong((IMAGE.long(), 1)), "pixels must be uint8"),
        (
            Net(),
            Wrong((torch.zeros(1, 5, 6), 1), at=100),
            r"shape \[1, 5, 6\], that of item 0 has \[1, 6, 6\]",
        ),
        (Net(), Corners(0), "the data set is empty"),
        (Net(), Stream(), "not a map-style data set"),
        (Net(side=7), Corners(), r"cannot take images \[2, 1, 6, 6\]: .*shapes cannot be multiplied"),
        (nn.Conv2d(1, 2, 3), Corners(), r"must return torchcaps.Output or logits .* a tensor \[2, 2, 4, 4\]"),
        (TwoOutputs(), Corners(), r"must return torchcaps.Output or logits .* got tuple"),
        ("net", Corners(), "model must be a torch.nn.Module, got str"),
    ],
)
def test_wrong_objects_are_refused_before_the_first_step(
    tmp_path: Path, model: Any, data: Any, message: str
) -> None:
    class NoStep(Callback):
        def on_step_end(self, position: Position, totals: Tensor) -> None:
            raise AssertionError("a step was made")

    with pytest.raises(ValueError, match=message):
        fit(model, data, out=tmp_path / "run", callbacks=[NoStep()])
    assert not (tmp_path / "run").exists(), "a run that never started leaves nothing behind"


def test_the_model_and_the_classes_must_agree(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"scores \[2, 4\], expected \[2, 10\]"):
        fit(new_net(side=8), load("digits"), out=tmp_path)
    with pytest.raises(ValueError, match=r"scores \[2, 4\], expected \[2, 2\]|there are 2 classes"):
        fit(new_net(), Corners(), out=tmp_path, classes=("left", "right"))


SCRIPT = """
import sys
from test_fit import Corners, QUICK, new_net
from torchcaps import fit

# 145 images make batches of 72, 72 and 1, of which the last is empty for the first of two processes.
options = dict(batch_size=72, epochs=2, optimizer="sgd", lr=0.1, preprocess={"translate": 1})
net = new_net()
net.layers[2] = net.layers[4] = __import__("torch").nn.Identity()
result = fit(net, Corners(145), Corners(33), out=sys.argv[1], **options)
print(result["status"], flush=True)
"""


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = child_environment()
    environment["PYTHONPATH"] += f":{Path(__file__).parent}"
    for name, words in (("one", []), ("two", ["--standalone", "--nproc-per-node", "2"])):
        start = [sys.executable, "-m", "torch.distributed.run"] if words else [sys.executable]
        finished = subprocess.run(
            [*start, *words, str(script), str(tmp_path / name)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert finished.returncode == 0, finished.stderr
    for name, tensor in weights_of(tmp_path / "one").items():
        torch.testing.assert_close(weights_of(tmp_path / "two")[name], tensor, rtol=1e-4, atol=1e-6, msg=name)
    one, two = (json.loads((tmp_path / name / "result.json").read_text()) for name in ("one", "two"))
    assert one["metrics"]["test"] == pytest.approx(two["metrics"]["test"], rel=1e-4)
