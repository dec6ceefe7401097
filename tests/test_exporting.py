"""Exported files run without torchcaps and give the same scores."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from models.test_models import THIN, build, images_for
from torchcaps import ConvCaps, DenseCaps, create_model, exporting, kernels
from torchcaps.errors import RunError
from torchcaps.exporting import TensorOutputs, export
from torchcaps.models import Model
from torchcaps.models.weights import ModelCard

pytestmark = pytest.mark.filterwarnings("ignore:the file gets no names of classes:UserWarning")
onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

# Without capsules, without iterations, and with dynamic routing; all others are slow.
QUICK = ("pooled_cnn", "aff_capsnet_small", "shared_capsnet")
SWEEP = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in THIN]

# Run by a new interpreter, which must not import torchcaps even where it is installed. It reads a file and
# images and writes the outputs.
ALONE = """
import sys
import numpy
path, images, results = sys.argv[1:]
images = numpy.load(images)
if path.endswith(".onnx"):
    import onnxruntime
    session = onnxruntime.InferenceSession(path)
    names = [output.name for output in session.get_outputs()]
    outputs = [dict(zip(names, session.run(names, {"images": images[:size]}))) for size in (1, 3)]
else:
    import torch
    run = torch.export.load(path).module()
    outputs = [run(torch.from_numpy(images[:size])) for size in (1, 3)]
assert not any(name.partition(".")[0] == "torchcaps" for name in sys.modules), "torchcaps was imported"
named = zip((1, 3), outputs)
numpy.savez(results, **{f"{name}{size}": value for size, each in named for name, value in each.items()})
"""


def prepared(name: str) -> Model:
    """A small network whose scores depend on the image."""
    torch.manual_seed(0)
    model = build(name).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.02 * torch.randn_like(parameter)
    return model


def run_alone(path: Path, images: torch.Tensor) -> dict[str, torch.Tensor]:
    import numpy

    numpy.save(path.with_name("images.npy"), images.numpy())
    results = path.with_name("results.npz")
    # -I: neither PYTHONPATH nor the current folder; -S would hide torch as well.
    command = [sys.executable, "-I", "-c", ALONE, path, path.with_name("images.npy"), results]
    subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)
    return {name: torch.from_numpy(value) for name, value in numpy.load(results).items()}


@pytest.mark.parametrize("format", ["pt2", "onnx"])
@pytest.mark.parametrize("name", SWEEP)
def test_every_network_runs_without_torchcaps(name: str, format: str, tmp_path: Path) -> None:
    model = prepared(name)
    exported = export(model, tmp_path / f"network.{format}")
    assert exported.difference <= 1e-5
    images = images_for(model, 3)
    outputs = run_alone(exported.path, images)
    for size in (1, 3):
        with torch.no_grad():
            expected = TensorOutputs(model)(images[:size])
        assert set(expected) == set(exported.outputs)
        for output, value in expected.items():
            close = {"atol": 1e-5, "rtol": 0.0} if output == "scores" else {"atol": 1e-4, "rtol": 1e-3}
            torch.testing.assert_close(outputs[f"{output}{size}"], value, **close)


@pytest.mark.slow
@pytest.mark.parametrize("name", THIN)
def test_plain_torch_export_saves_a_whole_model(name: str, tmp_path: Path) -> None:
    model = prepared(name)
    images = images_for(model)
    torch.export.save(torch.export.export(model, (images,)), tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2").module()(images)
    assert type(loaded) is type(model(images))
    torch.testing.assert_close(loaded.scores, model(images).scores, atol=1e-5, rtol=0)


def test_a_fixed_batch_refuses_others(tmp_path: Path) -> None:
    exported = export(build("pooled_cnn"), tmp_path / "one.onnx", batch_size=1)
    session = onnxruntime.InferenceSession(exported.path)
    assert session.get_inputs()[0].shape == [1, 1, 28, 28]
    with pytest.raises(Exception, match=r"[Dd]imension"):
        session.run(None, {"images": torch.rand(2, 1, 28, 28).numpy()})


def test_files_describe_themselves(tmp_path: Path) -> None:
    card = ModelCard("pooled_cnn", {}, 2, 1, (28, 28), ("cat", "dog"), {"standardize": True})
    model = create_model("pooled_cnn", num_classes=2, stages=((4,),), hidden=4)
    extra = {exporting.DESCRIPTION: ""}
    torch.export.load(export(model, tmp_path / "pets.pt2", card=card).path, extra_files=extra)
    file = onnx.load(export(model, tmp_path / "pets.onnx", card=card).path)
    props = file.metadata_props
    for value in (*file.graph.input, *file.graph.output):
        assert value.type.tensor_type.shape.dim[0].dim_param == "batch"
    for text in (extra[exporting.DESCRIPTION], {each.key: each.value for each in props}["torchcaps.json"]):
        description = json.loads(text)
        assert description["classes"] == ["cat", "dog"]
        assert description["preprocess"] == {"standardize": True}
        assert description["image"]["standardize"] is True
        assert description["image"]["invert_if_border_above"] == 0.6
        assert description["input"] == {"name": "images", "shape": ["batch", 1, 28, 28]}
        assert description["outputs"] == ["scores", "logits"]


def test_the_model_is_left_as_it_was(tmp_path: Path) -> None:
    model = build("pooled_cnn").train()
    export(model, tmp_path / "network.pt2")
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_a_file_that_differs_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "network.pt2"
    path.write_bytes(b"old")
    monkeypatch.setattr(exporting, "TOLERANCE", -1.0)
    with pytest.raises(RunError, match="differ from the model's"):
        export(build("pooled_cnn"), path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_unknown_formats_and_shapes_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown format 'tflite'"):
        export(build("pooled_cnn"), tmp_path / "network.tflite")
    with pytest.raises(ValueError, match=r"give image_shape=\(channels, height, width\)"):
        export(nn.Flatten(), tmp_path / "network.pt2")
    with pytest.raises(RunError, match="no such run or weights file"):
        export("nothing", tmp_path / "network.pt2")


@pytest.mark.parametrize("routing", ["dynamic", "em", "heinsen"])
def test_exports_hold_no_operator_of_ours(routing: str) -> None:
    assert not kernels.status().built or kernels.status().enabled
    layer = DenseCaps(6, 16, 3, 16, pose="vector" if routing == "dynamic" else "matrix", routing=routing)
    layer.requires_grad_(False)  # a traced function keeps weights as constants
    program = torch.export.export(layer, (torch.rand(2, 6, 16),))
    assert "torchcaps" not in str(program.graph)
    traced = torch.jit.trace(lambda poses: layer(poses).pose, torch.rand(2, 6, 16), check_trace=False)
    assert "torchcaps::" not in str(traced.graph)  # the graph names source files too


def test_convolutional_capsules_can_be_traced() -> None:
    layer = ConvCaps(2, 3, kernel_size=3, stride=2, in_dim=4, routing="dynamic", pose="vector")
    layer.requires_grad_(False)  # a traced function keeps weights as constants
    poses = torch.rand(2, 5, 5, 2, 4)

    def run(poses: torch.Tensor) -> torch.Tensor:
        pose: torch.Tensor = layer((poses, poses[..., 0])).pose
        return pose

    traced = torch.jit.trace(run, poses, check_trace=False)
    torch.testing.assert_close(traced(poses), run(poses))
