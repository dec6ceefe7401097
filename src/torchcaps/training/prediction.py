from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from torchcaps._checks import check_count
from torchcaps._registry import suggest
from torchcaps.capsules import Capsules
from torchcaps.data.formats.images import MAX_PIXELS, open_image, read_image, upright_shape
from torchcaps.data.preprocess import Preprocess
from torchcaps.errors import DataError, RunError
from torchcaps.models import Model, Output, list_pretrained, pretrained_path
from torchcaps.models.base import evaluating
from torchcaps.models.hub import WEIGHTS as SAVED_WEIGHTS
from torchcaps.models.weights import ModelCard, load_file_into, load_weights, read_card
from torchcaps.training.data import background
from torchcaps.training.objective import as_output
from torchcaps.training.run import reported_model

LOGGER = logging.getLogger(__name__)
MAX_TIMES = 16
"""How many times the pixels of a training image `Predictor.full_shape` allows: memory grows with them."""
Network = TypeVar("Network", bound=nn.Module)


@torch.no_grad()
def predict(model: nn.Module, images: Tensor, *, batch_size: int = 256) -> Output:
    """The output of a model for many images, without gradients and a batch at a time.

    Args:
        model: returns `Output` or logits `[B, classes]`; it is left in the mode it was in.
        images: float `[N, C, H, W]`, prepared as in training.
        batch_size: images at a time.

    Example:
        >>> from torchcaps.models import create_model
        >>> predict(create_model("capsnet_small"), torch.rand(3, 1, 28, 28), batch_size=2).scores.shape
        torch.Size([3, 10])
    """
    check_count("batch_size", batch_size)
    device = next(model.parameters()).device
    with evaluating(model):
        outputs = [as_output(model(part.to(device))) for part in images.split(batch_size)]
    scores, logits = torch.cat([o.scores for o in outputs]), torch.cat([o.logits for o in outputs])
    capsules = reconstruction = None
    if outputs[0].capsules is not None:
        capsules = Capsules(*(torch.cat(each) for each in zip(*(o.capsules for o in outputs if o.capsules))))
    if outputs[0].reconstruction is not None:
        reconstruction = torch.cat([o.reconstruction for o in outputs if o.reconstruction is not None])
    return Output(scores, logits, capsules, reconstruction)


class Prediction(NamedTuple):
    """The best class of an image, its score, and all scores by class name, best first."""

    label: str
    score: float
    scores: dict[str, float]


class Predictor:
    """A trained model for use on image files and raw pixels.

    Args:
        model: the network.
        card: how its images are prepared, and what its classes are called.

    Attributes:
        model: the network, in evaluation mode if `load` made the predictor; for features, for
            `model.save_pretrained`, and for everything else that a model can do.
        card: the `ModelCard`, with the names of the classes, the size and channels of an image, and how an
            image is prepared.

    Example:
        >>> card = ModelCard("pooled_cnn", {}, 2, 1, (16, 16), ("cat", "dog"))
        >>> predictor = Predictor(card.build(), card)
        >>> predictor(torch.zeros(3, 1, 16, 16, dtype=torch.uint8))[0].label in ("cat", "dog")
        True
    """

    def __init__(self, model: Model, card: ModelCard) -> None:
        self.model, self.card = model, card
        self.preprocess = Preprocess.from_options(card.preprocess)

    @classmethod
    def load(cls, path: str | Path, model: nn.Module | None = None) -> Predictor:
        """From a run's folder, one of `save_pretrained`, a weights file, or a name as `capsnet_small-mnist`.

        Args:
            path: where the weights are; see `find_weights`.
            model: a network of your own, built as it was for training, that gets the weights; by default the
                file says how it is built.
        """
        weights = find_weights(path)
        LOGGER.debug(f"weights: {weights}")
        if model is None:
            return cls(*load_weights(weights))
        return cls(load_into(model, weights).eval(), read_card(weights))  # type: ignore[arg-type]

    def __call__(self, images: Tensor, *, batch_size: int = 256) -> list[Prediction]:
        """Classify raw images, uint8 `[N, C, H, W]` of any size."""
        output = predict(self.model, self.preprocess.test(images), batch_size=batch_size)
        return [self._prediction(scores) for scores in output.scores.cpu()]

    def files(self, paths: Sequence[str | Path], *, invert: bool | None = None) -> list[Prediction]:
        """Classify image files.

        Args:
            paths: image files of any size and kind.
            invert: swap dark and light. By default this is done with gray images whose border is bright where
                that of the training images is dark, or the reverse: ink on paper, for a model that learned
                white on black.
        """
        images = torch.stack([self.read(path, invert=invert) for path in paths])
        return self(images)

    def read(
        self,
        path: str | Path,
        *,
        invert: bool | None = None,
        shape: tuple[int, int] | None = None,
        max_pixels: int = MAX_PIXELS,
        content: bytes | None = None,
    ) -> Tensor:
        """Read an image file as the model's training images were: uint8 `[C, H, W]`.

        Args:
            path: an image file of any size and kind.
            invert: see `files`.
            shape: height and width to bring it to, by default those of the training images. If it has another
                shape, it is cropped or padded as they were (`card.pad`).
            max_pixels: width times height of the largest image that is decoded.
            content: the bytes of the file, if they are in memory; then the path is only its name in messages.
        """
        channels = self.card.in_channels
        gray = channels != 3
        # The size before a center crop is not known any more; a whole object at the crop's size is nearest.
        size = shape or self.card.image_size
        image = read_image(path, size, gray, max_pixels, content, pad=self.card.pad)
        if gray and channels > 1:
            image = image.expand(channels, -1, -1)
        return self.with_background(image, invert)

    def with_background(self, image: Tensor, invert: bool | None) -> Tensor:
        """Swap dark and light in an image, uint8 `[C, H, W]`, if `invert` says so; see `files`."""
        if invert is None:
            invert = self.card.in_channels == 1 and inverted(image, self.card.background)
        return 255 - image if invert else image

    def full_shape(self, path: str | Path, side: int | None = None) -> tuple[int, int]:
        """The shape in which the model reads all of a picture: nothing is cropped if it reads any size.

        Args:
            path: an image file.
            side: pixels along its shorter side. By default those of the training images, times
                `picture_scale` if the model has one: a `PartsCapsNet` that was trained on 64 pixels reads 96.

        Raises:
            ValueError: another side was asked for, and the model reads one size only.
            DataError: the shape would have more than `MAX_TIMES` as many pixels as a training image.
        """
        if not getattr(self.model, "any_size", False) or self.preprocess.crop or self.preprocess.resize:
            if side is not None:
                height, width = self.card.image_size
                raise ValueError(
                    f"{self.card.model} reads images of {width}×{height} pixels only, not of {side}"
                )
            return self.card.image_size
        with open_image(Path(path)) as image:
            height, width = upright_shape(image)
        trained = self.card.image_size
        side = side or round(getattr(self.model, "picture_scale", 1.0) * min(trained))
        factor = side / min(height, width)
        shape = round(factor * height), round(factor * width)
        most = MAX_TIMES * trained[0] * trained[1]
        if shape[0] * shape[1] > most:
            raise DataError.in_file(
                Path(path),
                f"with {side} pixels along its shorter side it has {shape[1]}×{shape[0]} = "
                f"{shape[0] * shape[1]} pixels, and at most {most} are read, {MAX_TIMES} times as many as a "
                "training image has: crop it, or choose fewer pixels with --size",
            )
        return shape

    def _prediction(self, scores: Tensor) -> Prediction:
        order = scores.argsort(descending=True).tolist()
        named = {self.card.classes[place]: float(scores[place]) for place in order}
        label = self.card.classes[order[0]]
        return Prediction(label, named[label], named)


def inverted(image: Tensor, expected: float) -> bool:
    """Whether the border of an image (uint8 `[C, H, W]`) fits the expected brightness better when inverted.

    >>> inverted(torch.full((1, 8, 8), 250, dtype=torch.uint8), expected=0.02)
    True
    """
    border = background(image.unsqueeze(0))
    above, below = invert_limits(expected)
    return (above is not None and border > above) or (below is not None and border < below)


def invert_limits(expected: float) -> tuple[float | None, float | None]:
    """The brightness of a border above which, and that below which, an image is inverted; `None` for never.

    Neither a training set nor an image of medium brightness tells; only a clear case is inverted.

    >>> invert_limits(0.02), invert_limits(0.9), invert_limits(0.5)
    ((0.6, None), (None, 0.4), (None, None))
    """
    return (0.6 if expected < 0.3 else None), (0.4 if expected > 0.7 else None)


def load_into(model: Network, path: str | Path) -> Network:
    """Give your own model the weights that `torchcaps.fit` wrote.

    Args:
        model: built as the one that was trained.
        path: a run's folder, which stands for the model that the run reports, a folder of `save_pretrained`,
            or a weights file.

    Returns:
        The same model; its mode is left as it is. If it is a `torchcaps.Model`, such as `CapsuleHead`,
        `model.card` has its classes and its preprocessing, which `export` reads.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from torchcaps.data import load
        >>> from torchcaps.training import fit
        >>> def build():
        ...     return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
        >>> with TemporaryDirectory() as folder:
        ...     result = fit(build(), load("digits"), out=folder, epochs=1)
        ...     model = load_into(build(), folder)
    """
    chosen = find_weights(path)
    load_file_into(model, chosen)
    if isinstance(model, Model):
        model.card = read_card(chosen)
    return model


def find_weights(path: str | Path) -> Path:
    """The weights file that a path or a name stands for.

    Args:
        path: a run's folder, which stands for the model that the run reports (see
            `torchcaps.training.run.reported_model`); a folder of `save_pretrained`; a weights file; or model
            and data of weights that come with the package, such as `capsnet_small-mnist`.

    Raises:
        RunError: there is no such file, or the run has no model yet.
    """
    path = Path(path)
    if path.is_dir():
        saved = path / SAVED_WEIGHTS
        # Someone may save a model into the folder of its run, which goes on to stand for what it reports.
        is_run = (path / "recipe.toml").is_file()
        return saved if saved.is_file() and not is_run else reported_model(path)
    if path.is_file():
        return path
    shipped = {f"{each['model']}-{each['data']}": each for each in list_pretrained()}
    if str(path) not in shipped:
        raise RunError(
            f"{path}: there is no such run or weights file, and none of that name comes with torchcaps: "
            f"{suggest(str(path), shipped)}"
        )
    return pretrained_path(shipped[str(path)]["model"], shipped[str(path)]["data"])
