"""Weights files that are damaged, or describe a model that cannot be, are refused in one sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from support.tiny_runs import child_environment
from torchcaps.errors import RunError
from torchcaps.models import create_model, list_models, register_model
from torchcaps.models.registry import MODELS
from torchcaps.models.weights import (
    FORMAT,
    ModelCard,
    load_file_into,
    load_weights,
    save_weights,
    write_tensors,
)

CARD = ModelCard("pooled_cnn", {"stages": [[4], [4]], "hidden": 8}, 3, 1, (16, 16), ("a", "b", "c"))


def write(path: Path, tensors: dict[str, Tensor] | None = None, **changes: Any) -> Path:
    """A weights file whose card has some changes."""
    write_tensors(path, CARD.build().state_dict() if tensors is None else tensors, asdict(CARD) | changes)
    return path


def refusal(path: Path) -> str:
    """The sentence with which a file is refused; it names the file and has one line."""
    with pytest.raises(RunError) as error:
        load_weights(path)
    message = str(error.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": ["a", "b"]}, "2 class names for 3 classes"),
        ({"classes": "abc"}, "classes must be a list of names"),
        ({"classes": ["a", "b", 3]}, "classes must be a list of names"),
        ({"classes": None}, "classes must be a list of names"),
        ({"num_classes": 10**9}, "3 class names for 1000000000 classes"),
        ({"num_classes": "3"}, "num_classes must be a whole number of at least 1, got '3'"),
        ({"num_classes": -3}, "num_classes must be a whole number of at least 1, got -3"),
        ({"num_classes": 2, "classes": ["a", "b"]}, r"head\.2\.weight is \[3, 8\] in the file and \[2, 8\]"),
        ({"in_channels": 10**9}, r"is \[4, 1, 3, 3\] in the file and \[4, 1000000000, 3, 3\] in the model"),
        ({"in_channels": 10**30}, "a model that cannot be built"),
        ({"in_channels": None}, "in_channels must be a whole number"),
        ({"image_size": 16}, "image_size must be 2 whole numbers, got 16"),
        ({"image_size": [16]}, "image_size must be 2 whole numbers"),
        ({"image_size": [16, 0]}, "image_size must be a whole number of at least 1, got 0"),
        ({"image_size": [16, 10**9]}, "image_size is at most 16384, got 1000000000"),
        ({"image_size": "ab"}, "image_size must be 2 whole numbers"),
        ({"model": "pooled_cn"}, "unknown model 'pooled_cn': did you mean 'pooled_cnn'"),
        ({"model": ["pooled_cnn"]}, "model must be a name"),
        ({"options": {"stagess": 1}}, "has no option 'stagess'"),
        ({"options": {"stages": 1}}, "stages must be tuples of channels"),
        ({"options": {"num_classes": 1}}, "a model that cannot be built"),
        ({"options": []}, "options must be a table"),
        (
            {"options": {"stages": [[4], [4]], "hidden": 10**9}},
            r"is \[8, 4\] in the file and \[1000000000, 4\] in the model",
        ),
        ({"preprocess": 3}, "preprocess must be a table"),
        ({"background": "dark"}, "background must be a finite number"),
        ({"facts": None}, "facts must be a table"),
        ({"surprise": 1}, "holds no description of a torchcaps model"),
    ],
)
def test_a_card_that_cannot_be_right_is_refused(tmp_path: Path, changes: dict, message: str) -> None:
    with pytest.raises(RunError, match=message):
        load_weights(write(tmp_path / "w.safetensors", **changes))
    refusal(tmp_path / "w.safetensors")


def test_a_missing_part_of_the_card_is_named(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    for name in ("model", "options", "num_classes", "image_size", "classes"):
        write_tensors(path, {}, {key: value for key, value in asdict(CARD).items() if key != name})
        assert name in refusal(path)


@pytest.mark.parametrize(
    "header",
    [
        "[" * 100_000,
        f'{{"format": {FORMAT}, "model": {"[" * 100_000}',
        f'{{"format": {FORMAT}, "num_classes": {"9" * 5000}}}',
        "nonsense",
    ],
)
def test_a_header_that_cannot_be_read_is_refused(tmp_path: Path, header: str) -> None:
    path = tmp_path / "w.safetensors"
    save_file({"x": torch.zeros(1)}, path, {"torchcaps": header})
    assert "is damaged" in refusal(path)


def test_a_small_file_cannot_ask_for_much_memory(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    options = {"stages": [[4], [4]], "hidden": 2 * 10**9}
    path = write(tmp_path / "w.safetensors", {"x": torch.zeros(1)}, options=options)
    assert path.stat().st_size < 600
    limit = 8 * 2**30
    code = (
        f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))\n"
        "import sys; from torchcaps.models.weights import load_weights; load_weights(sys.argv[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], env=child_environment(), capture_output=True, text=True
    )
    last = done.stderr.splitlines()[-1]
    assert last.startswith("torchcaps.errors.RunError"), last
    assert "is not in the file" in last
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < limit / 1024 / 2


def test_tensors_that_do_not_fit_are_named(tmp_path: Path) -> None:
    path, tensors = tmp_path / "w.safetensors", CARD.build().state_dict()
    first = next(iter(tensors))
    assert f"{first} is not in the file" in refusal(
        write(path, {name: tensors[name] for name in tensors if name != first})
    )
    assert "other is not in the model" in refusal(write(path, {**tensors, "other": torch.zeros(1)}))
    assert f"{first} is [1] in the file" in refusal(write(path, {**tensors, first: torch.zeros(1)}))
    whole = tensors[first].to(torch.int32)
    assert f"{first} holds torch.int32" in refusal(write(path, {**tensors, first: whole}))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_refused(tmp_path: Path, value: float) -> None:
    tensors = CARD.build().state_dict()
    tensors["head.2.bias"][1] = value
    message = refusal(write(tmp_path / "w.safetensors", tensors))
    assert "head.2.bias holds values that are not finite" in message


def test_double_precision_too_large_for_the_model_is_refused(tmp_path: Path) -> None:
    tensors = CARD.build().state_dict()
    tensors["head.2.bias"] = torch.full((3,), 1e300, dtype=torch.float64)
    assert "head.2.bias" in refusal(write(tmp_path / "w.safetensors", tensors))


@pytest.mark.parametrize("name", list_models())
def test_every_model_can_be_checked_before_it_is_built(name: str) -> None:
    options = {"num_classes": 5, "in_channels": 1, "image_size": 32}
    with torch.device("meta"):
        outline = create_model(name, **options)
    shapes = {key: tensor.shape for key, tensor in create_model(name, **options).state_dict().items()}
    assert {key: tensor.shape for key, tensor in outline.state_dict().items()} == shapes
    assert all(tensor.is_meta for tensor in outline.state_dict().values())


class Masked(nn.Module):
    def __init__(self, num_classes: int, in_channels: int, image_size: tuple[int, int]) -> None:
        super().__init__()
        self.scale = float(torch.ones(3).sum())  # cannot be done on the meta device
        self.register_buffer("mask", torch.full((2,), -float("inf")))
        self.linear = nn.LazyLinear(num_classes)


def test_a_model_may_compute_have_infinite_buffers_and_lazy_layers(tmp_path: Path) -> None:
    register_model(Masked)
    try:
        card = ModelCard("Masked", {}, 2, 1, (2, 2), ("a", "b"))
        model = card.build()
        model.linear(torch.zeros(1, 4))
        save_weights(tmp_path / "w.safetensors", model, card)
        loaded, _ = load_weights(tmp_path / "w.safetensors")
        assert torch.equal(loaded.linear.weight, model.linear.weight)
        model.linear.weight.data.fill_(float("nan"))
        save_weights(tmp_path / "w.safetensors", model, card)
        assert "linear.weight" in refusal(tmp_path / "w.safetensors")
    finally:
        del MODELS._entries["Masked"]


def test_the_error_of_load_file_into_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="does not fit Linear: ") as error:
        load_file_into(nn.Linear(1, 2), write(tmp_path / "w.safetensors"))
    assert "\n" not in str(error.value)


def test_the_file_of_another_format_is_named(tmp_path: Path) -> None:
    save_file({}, tmp_path / "w.safetensors", {"torchcaps": json.dumps({"format": 99})})
    assert f"file format 99, and this version of torchcaps reads {FORMAT}" in refusal(
        tmp_path / "w.safetensors"
    )
