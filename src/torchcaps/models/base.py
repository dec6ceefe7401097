from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from torchcaps._checks import check_count, check_counts, check_dtype, check_tensor
from torchcaps._compiling import INLINE_VOTES, Unscriptable
from torchcaps._pytrees import serializable
from torchcaps.capsules import Capsules
from torchcaps.layers import CapsuleLayer, Decoder
from torchcaps.layers.base import as_capsules
from torchcaps.routing import RoutingOutput


@serializable
class Output(NamedTuple):
    """What a model returns for a batch.

    Attributes:
        scores: `[B, classes]`, from 0 to 1: the activations of the class capsules, or a CNN's probabilities.
        logits: `[B, classes]`, before the sigmoid or softmax; cross-entropy takes these.
        capsules: class capsules, pose `[B, classes, D]`; `None` for a CNN.
        reconstruction: `[B, C, H, W]` drawn from one class capsule; `None` without a decoder.
    """

    scores: Tensor
    logits: Tensor
    capsules: Capsules | None = None
    reconstruction: Tensor | None = None


class _TracedScores(NamedTuple):
    """`Output` of a CNN for `torch.jit.trace`, which cannot record a module that returns `None`."""

    scores: Tensor
    logits: Tensor

    @property
    def capsules(self) -> None:
        return None

    @property
    def reconstruction(self) -> None:
        return None


class _TracedCapsules(NamedTuple):
    """`Output` without a decoder for `torch.jit.trace`."""

    scores: Tensor
    logits: Tensor
    capsules: Capsules

    @property
    def reconstruction(self) -> None:
        return None


class LayerHistory(NamedTuple):
    """All iterations of the routing in one capsule layer.

    Attributes:
        name: of the layer inside the model.
        votes: `[B, P, I, J, D]`.
        iterations: the output of the layer after each iteration.
    """

    name: str
    votes: Tensor
    iterations: list[RoutingOutput]


class Model(Unscriptable, nn.Module):
    """Base class of all networks here: sizes, a check of the images, and ways to look inside.

    Args:
        num_classes: number of classes.
        in_channels: channels of an image.
        image_size: height and width of an image, or one number for both.
    """

    # A network that averages or routes over positions reads any size; the others are built for one.
    any_size = False
    # Names of the parameters that do not come from pretrained weights; `None` if none were loaded.
    new_parameters: tuple[str, ...] | None = None
    # Name and options that `create_model` built it with.
    created_as: tuple[str, dict[str, Any]] | None = None
    # The `ModelCard` of the weights that it was loaded with: classes, preprocessing, metrics.
    card: Any = None

    def __init__(self, *, num_classes: int, in_channels: int, image_size: int | tuple[int, int]) -> None:
        super().__init__()
        self.num_classes = check_count("num_classes", num_classes)
        self.in_channels = check_count("in_channels", in_channels)
        both = (image_size, image_size) if isinstance(image_size, int) else image_size
        height, width = check_counts("image_size", both, 2)
        self.image_size = (height, width)
        self.decoder: Decoder | None = None

    def check_images(self, images: Tensor) -> None:
        """Raise for images of another shape than the model was built for."""
        sizes = {"C": self.in_channels}
        if not self.any_size:
            sizes |= {"H": self.image_size[0], "W": self.image_size[1]}
        check_tensor("images", images, "B C H W", **sizes)
        weight = next(self.parameters(), images)  # quantized layers have no parameters
        check_dtype("images", images, weight)

    def forward(self, images: Tensor, target: Tensor | None = None) -> Output:
        """Classify images `[B, C, H, W]`; a decoder draws capsule `target` `[B]`, by default the best one."""
        raise NotImplementedError

    def _slow_forward(self, *args: Any, **options: Any) -> Any:
        """What PyTorch calls in place of `forward` while it traces: the same output without its `None`s."""
        output = super()._slow_forward(*args, **options)
        if not isinstance(output, Output) or output.reconstruction is not None:
            return output
        if output.capsules is None:
            return _TracedScores(output.scores, output.logits)
        return _TracedCapsules(output.scores, output.logits, output.capsules)

    def compile(self, *args: Any, **options: Any) -> None:
        """Compile in place, as `torch.nn.Module.compile` does; recommended on a GPU.

        Unless a mode, options or another backend are given, votes are inlined into the sums over them.
        """
        if not args and not options.keys() & {"mode", "options", "backend"}:
            options["options"] = INLINE_VOTES
        super().compile(*args, **options)

    def forward_features(self, images: Tensor) -> Any:
        """What the layer of the classes reads: `Capsules`, or features of a CNN `[B, D]`.

        Example:
            >>> from torchcaps import create_model
            >>> create_model("capsnet_small").forward_features(torch.rand(2, 1, 28, 28)).pose.shape
            torch.Size([2, 6, 6, 8, 8])
        """
        from torchcaps.models.reuse import class_layer_input

        return class_layer_input(self, images)

    def reset_classifier(self, num_classes: int) -> None:
        """Give the network a new, untrained layer for another number of classes; all others stay as they are.

        A decoder keeps the layers that fit. `new_parameters` names what starts untrained.

        Args:
            num_classes: number of classes.

        Example:
            >>> from torchcaps import create_model
            >>> model = create_model("shared_capsnet", pretrained="mnist")
            >>> model.reset_classifier(5)
            >>> model(torch.rand(2, 1, 28, 28)).scores.shape, model.new_parameters
            (torch.Size([2, 5]), ('classes.weight',))
        """
        from torchcaps.models.reuse import reset_classifier

        reset_classifier(self, num_classes)

    def save_pretrained(self, folder: str | Path, **facts: Any) -> Path:
        """Write weights, `config.json` and a model card to a folder; see `torchcaps.models.hub`."""
        from torchcaps.models.hub import save_pretrained

        return save_pretrained(self, folder, **facts)

    @classmethod
    def from_pretrained(cls, source: str | Path, *, revision: str | None = None) -> Model:
        """Load a folder of `save_pretrained` or a repository of the hub; see `torchcaps.models.hub`."""
        from torchcaps.models.hub import from_pretrained

        return from_pretrained(source, revision=revision, kind=cls)

    def push_to_hub(self, repository: str, *, private: bool = False, **facts: Any) -> str:
        """Publish on the Hugging Face hub and return the address; see `torchcaps.models.hub`."""
        from torchcaps.models.hub import push_to_hub

        return push_to_hub(self, repository, private=private, **facts)

    def reconstruct(self, capsules: Capsules, target: Tensor) -> Tensor:
        """Draw any chosen class capsule.

        Args:
            capsules: class capsules, pose `[B, classes, D]`, as in `Output.capsules`; poses may be changed.
            target: which capsule of each sample to draw, `[B]`.

        Returns images `[B, C, H, W]`.
        """
        if self.decoder is None:
            raise ValueError(f"{type(self).__name__} was built without a decoder and cannot reconstruct")
        return self.decoder(as_capsules(capsules).pose, target)

    def routing_history(self, images: Tensor) -> list[LayerHistory]:
        """Every routing iteration of every capsule layer, from the bottom up; a CNN has none."""
        _, inputs = capsule_inputs(self, images)
        return [
            LayerHistory(name, layer.votes(children).tensor(), layer.history(children))
            for name, layer, children in inputs
        ]


def capsule_inputs(model: nn.Module, images: Tensor) -> tuple[Any, list[tuple[str, CapsuleLayer, Capsules]]]:
    """Run a network once and record the input of each of its capsule layers.

    Args:
        model: any network that calls capsule layers.
        images: its input.

    Returns:
        The network's output, and (name, layer, children) of every capsule layer in the order of the calls.

    Example:
        >>> from torchcaps import create_model
        >>> output, inputs = capsule_inputs(create_model("capsnet_small"), torch.rand(1, 1, 28, 28))
        >>> [(name, children.pose.shape) for name, _, children in inputs]
        [('classes', torch.Size([1, 6, 6, 8, 8]))]
    """
    inputs: list[tuple[str, CapsuleLayer, Capsules]] = []

    def record(name: str, layer: CapsuleLayer, args: tuple[Any, ...]) -> None:
        inputs.append((name, layer, as_capsules(args[0])))

    handles = [
        layer.register_forward_pre_hook(partial(record, name))
        for name, layer in model.named_modules()
        if isinstance(layer, CapsuleLayer)
    ]
    try:
        return model(images), inputs
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode inside a `with` block.

    >>> layer = nn.Dropout()
    >>> with evaluating(layer):
    ...     layer.training
    False
    >>> layer.training
    True
    """
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


class CapsuleModel(Model):
    """A network whose classes are capsules: `Output.capsules` is never `None`."""


def conv_extent(model: str, layer: str, size: int, kernel: int, stride: int = 1, padding: int = 0) -> int:
    """The size after a convolution, or an error that says which layer no longer fits.

    >>> conv_extent("capsnet", "first convolution", 28, 9)
    20
    >>> conv_extent("capsnet", "first convolution", 8, 9)
    Traceback (most recent call last):
    ValueError: image_size is too small for capsnet: its first convolution needs at least 9 pixels, gets 8
    """
    if size + 2 * padding < kernel:
        raise ValueError(
            f"image_size is too small for {model}: its {layer} needs at least {kernel} pixels, "
            f"gets {size + 2 * padding}"
        )
    return (size + 2 * padding - kernel) // stride + 1


def longest(scores: Tensor, target: Tensor | None) -> Tensor:
    """The capsule to draw: the target in training, the longest where none is given."""
    return scores.argmax(1) if target is None else target


def softmax_output(logits: Tensor) -> Output:
    """Output of a CNN that picks one class."""
    return Output(scores=torch.softmax(logits, 1), logits=logits)
