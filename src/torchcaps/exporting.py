"""Networks for use without torchcaps: ONNX files and programs of `torch.export`."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from torchcaps import __version__
from torchcaps._checks import check_choice, check_count, check_counts
from torchcaps._extras import require
from torchcaps._files import replaced_on_success
from torchcaps.errors import RunError
from torchcaps.models.weights import ModelCard, load_weights
from torchcaps.training.objective import as_output
from torchcaps.training.prediction import find_weights, invert_limits

FORMATS = ("onnx", "pt2")
# Name of the JSON description in the file: an entry of the metadata of ONNX, an extra file of a `.pt2`.
DESCRIPTION = "torchcaps.json"
# Name of the first dimension where any number of images is taken.
BATCH = "batch"
# How far the scores of the exported network may lie from those of the model.
TOLERANCE = 1e-5
# Batches that the exported network is tested with; the first one is exported.
BATCHES = (2, 1, 3)
# Who talks while an ONNX file is made.
LOGGERS = ("torch.onnx", "onnxscript", "onnx_ir")

Run = Callable[[Tensor], dict[str, Tensor]]


class Exported(NamedTuple):
    """A network that was exported.

    Attributes:
        path: the file.
        format: `"onnx"` or `"pt2"`.
        outputs: names of what it returns.
        difference: the largest difference between its scores and those of the model, on random images.
    """

    path: Path
    format: str
    outputs: tuple[str, ...]
    difference: float


class TensorOutputs(nn.Module):
    """A model that returns a dictionary of tensors, which needs no class of torchcaps.

    The dictionary holds `scores` and `logits`, `[B, classes]`; of a capsule network also `pose`,
    `[B, classes, D]`; with a decoder also `reconstruction`, `[B, C, H, W]`, drawn from the best capsule.

    Args:
        model: returns `Output` or logits.

    Example:
        >>> from torchcaps import create_model
        >>> list(TensorOutputs(create_model("capsnet_small"))(torch.rand(1, 1, 28, 28)))
        ['scores', 'logits', 'pose', 'reconstruction']
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """Classify images `[B, C, H, W]`."""
        returned = self.model(images)
        output = returned if hasattr(returned, "scores") else as_output(returned)
        named = {"scores": output.scores, "logits": output.logits}
        if output.capsules is not None:
            named["pose"] = output.capsules.pose
        if output.reconstruction is not None:
            named["reconstruction"] = output.reconstruction
        return named


def export(
    model: nn.Module | str | Path,
    path: str | Path,
    *,
    format: str | None = None,
    batch_size: int | None = None,
    image_shape: tuple[int, int, int] | None = None,
    card: ModelCard | None = None,
) -> Exported:
    """Write a network to a file that runs without torchcaps, and check that it gives the same scores.

    The file takes `images` `[B, C, H, W]`, prepared as in training, and returns what `TensorOutputs` returns.
    It holds a description, the JSON text `torchcaps.json`: names of the classes, how to prepare an image,
    inputs and outputs. The guide to exports explains its keys.

    Args:
        model: a run's folder, a folder of `save_pretrained`, a weights file, the name of weights that come
            with torchcaps, such as `"capsnet_small-mnist"`, or a model.
        path: the new file; it is replaced if it exists.
        format: `"onnx"`, or `"pt2"` for a program of `torch.export`; by default the ending of the path.
        batch_size: fix the number of images in a batch; by default any number.
        image_shape: channels, height and width of an image, if neither the model nor its card has them.
        card: classes and preprocessing of a model given as an object; by default `model.card`, which
            `torchcaps.fit` and `torchcaps.training.load_into` set. Without one, a warning says that the file
            has no names of classes.

    Returns:
        An `Exported`.

    Raises:
        RunError: the scores of the exported network differ from those of the model by more than 1e-5.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from torchcaps.training import ModelCard
        >>> card = ModelCard("pooled_cnn", {}, 10, 1, (16, 16), tuple("0123456789"))
        >>> with TemporaryDirectory() as folder:
        ...     exported = export(card.build(), f"{folder}/digits.pt2", card=card)
        ...     network = torch.export.load(exported.path).module()
        >>> network(torch.rand(5, 1, 16, 16))["scores"].shape
        torch.Size([5, 10])
    """
    path = Path(path)
    format = check_choice("format", path.suffix[1:] if format is None else format, FORMATS)
    if format == "onnx":
        for module in ("onnx", "onnxscript", "onnxruntime"):
            require(module, extra="export", purpose="exporting to ONNX")
    if isinstance(model, (str, Path)):
        model, card = load_weights(find_weights(model))
    card = card or getattr(model, "card", None)
    if card is None:
        warnings.warn(
            f"the file gets no names of classes and no preprocessing, as this {type(model).__name__} has no "
            "card: give card=ModelCard(...), or export the folder of its run, or a model that "
            "torchcaps.fit or torchcaps.training.load_into gave its weights",
            stacklevel=2,
        )
    network = TensorOutputs(_plain_copy(model))
    shape = _image_shape(model, image_shape, card)
    weight = next(model.parameters(), torch.empty(0))
    count = BATCHES[0] if batch_size is None else check_count("batch_size", batch_size)
    images = torch.rand(count, *shape, dtype=weight.dtype)
    with torch.no_grad():
        outputs = tuple(network(images))
    batch: Any = {0: torch.export.Dim(BATCH)} if batch_size is None else None
    with quiet():
        program = torch.export.export(network, (images,), dynamic_shapes=(batch,))
    description = _describe(model, card, shape, batch_size, outputs)
    write = {"onnx": _write_onnx, "pt2": _write_pt2}[format]
    # The other name keeps the ending, which `torch.export.save` insists on.
    with replaced_on_success(path) as temporary:
        written = temporary.with_name(f"{temporary.name}.{format}")
        try:
            run = write(program, batch_size, outputs, written, json.dumps(description))
            sizes = BATCHES if batch_size is None else (batch_size,)
            difference = max(_difference(network, run, size, images) for size in sizes)
            if not difference <= TOLERANCE:
                raise RunError(
                    f"the exported network's scores differ from the model's by {difference:.2g}, more than "
                    f"{TOLERANCE:g}; nothing was written"
                )
            written.replace(temporary)
        finally:
            written.unlink(missing_ok=True)
    return Exported(path, format, outputs, difference)


def _plain_copy(model: nn.Module) -> nn.Module:
    """A copy on the CPU for evaluation; the model keeps its mode and device."""
    return deepcopy(model).cpu().eval().requires_grad_(False)


def _image_shape(
    model: nn.Module, given: tuple[int, int, int] | None, card: ModelCard | None
) -> tuple[int, ...]:
    if given is not None:
        return check_counts("image_shape", given, 3)
    if not hasattr(model, "in_channels") or not hasattr(model, "image_size"):
        if card is not None:
            return (card.in_channels, *card.image_size)
        raise ValueError(
            f"{type(model).__name__} does not say which images it takes: "
            "give image_shape=(channels, height, width)"
        )
    return check_counts("image_shape", (model.in_channels, *model.image_size), 3)  # type: ignore[misc]


def _describe(
    model: nn.Module,
    card: ModelCard | None,
    shape: tuple[int, ...],
    batch_size: int | None,
    outputs: tuple[str, ...],
) -> dict[str, Any]:
    """What must be known to use the file, as JSON values."""
    description: dict[str, Any] = {
        "torchcaps": __version__,
        "model": type(model).__name__,
        "input": {"name": "images", "shape": [batch_size or BATCH, *shape]},
        "outputs": list(outputs),
    }
    if card is not None:
        description |= {
            "model": card.model,
            "classes": list(card.classes),
            "image": _describe_image(card),
            "preprocess": dict(card.preprocess),
        }
    return description


def _describe_image(card: ModelCard) -> dict[str, Any]:
    """How `Predictor.files` makes an input of an image file; docs/export.md has a program that goes by it."""
    above, below = invert_limits(card.background) if card.in_channels == 1 else (None, None)
    return {
        "mode": "RGB" if card.in_channels == 3 else "L",
        "transparent": "white",
        "pad": card.pad,
        "resample": "bilinear",
        "antialias": True,
        "invert_if_border_above": above,
        "invert_if_border_below": below,
        "divide_by": 255,
        "standardize": bool(card.preprocess.get("standardize", False)),
    }


def _write_pt2(
    program: torch.export.ExportedProgram,
    batch_size: int | None,
    outputs: tuple[str, ...],
    path: Path,
    description: str,
) -> Run:
    torch.export.save(program, path, extra_files={DESCRIPTION: description})
    run: Run = torch.export.load(path).module()
    return run


def _write_onnx(
    program: torch.export.ExportedProgram,
    batch_size: int | None,
    outputs: tuple[str, ...],
    path: Path,
    description: str,
) -> Run:
    import onnxruntime

    with quiet():
        exported = torch.onnx.export(
            program,
            dynamo=True,
            input_names=["images"],
            output_names=list(outputs),
            # The names of the program's own dimensions are lost; "batch" is also in the description.
            dynamic_shapes={"images": {0: BATCH}} if batch_size is None else None,
            external_data=False,
            verbose=False,
        )
    assert exported is not None
    exported.model.metadata_props[DESCRIPTION] = description
    exported.save(path, external_data=False)
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])

    def run(images: Tensor) -> dict[str, Tensor]:
        values = session.run(list(outputs), {"images": images.numpy()})
        return dict(zip(outputs, map(torch.as_tensor, values)))

    return run


@torch.no_grad()
def _difference(network: nn.Module, run: Run, count: int, like: Tensor) -> float:
    images = torch.rand(count, *like.shape[1:], dtype=like.dtype)
    return float((run(images)["scores"] - network(images)["scores"]).abs().max())


@contextmanager
def quiet() -> Iterator[None]:
    """Keep PyTorch's notes about its own parts out of the output: nothing can be done about them here."""
    levels = {logging.getLogger(name): logging.getLogger(name).level for name in LOGGERS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in levels:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in levels.items():
                logger.setLevel(level)
