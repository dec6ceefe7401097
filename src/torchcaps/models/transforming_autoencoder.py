from __future__ import annotations

from math import prod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from torchcaps._checks import check_choice, check_count, check_counts, check_dtype, check_tensor
from torchcaps._pytrees import serializable
from torchcaps.capsules import Capsules

POSES = {"shift": (2,), "affine": (3, 3)}


@serializable
class TransformedOutput(NamedTuple):
    """What a transforming auto-encoder returns for a batch.

    Attributes:
        images: `[B, C, H, W]`, its drawing of the transformed images.
        capsules: of the images before: pose `[B, K, 2]` or `[B, K, 3, 3]`, activation p `[B, K]`.
    """

    images: Tensor
    capsules: Capsules


class TransformingAutoencoder(nn.Module):
    r"""The network of *Transforming Auto-encoders* (Hinton, Krizhevsky, Wang 2011).

    Each capsule reads the whole image with its own recognition units, which give a presence and a pose.
    The known transformation of the image is then applied to the pose, and the capsule draws its part with
    generation units whose only input is the transformed pose:

    .. math:: h_k = \sigma(R_k x), \quad p_k = \sigma(a_k^T h_k), \quad M_k = P_k h_k, \quad
        y = \sum_k p_k V_k\, \sigma(U_k (T \circ M_k))

    For shifts the pose is (x, y) and :math:`T \circ M = M + (\Delta x, \Delta y)`; for affine changes it is a
    3×3 matrix and :math:`T \circ M = T M`. No target is given for the poses: a capsule must learn to give
    coordinates in order to draw the transformed image.

    Args:
        image_shape: (channels, height, width).
        capsules: K, their number.
        recognition: recognition units of each.
        generation: generation units of each.
        pose: `"shift"` or `"affine"`.

    Shape: images `[B, C, H, W]` and change `[B, 2]` (`shift`) or `[B, 3, 3]` (`affine`) to
    `TransformedOutput`.

    Example:
        >>> network = TransformingAutoencoder((1, 22, 22), capsules=5)
        >>> moved = network(torch.rand(4, 1, 22, 22), torch.tensor([[1.0, 0.0]]).expand(4, 2))
        >>> moved.images.shape, moved.capsules.pose.shape
        (torch.Size([4, 1, 22, 22]), torch.Size([4, 5, 2]))
    """

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        capsules: int = 30,
        recognition: int = 10,
        generation: int = 20,
        pose: str = "shift",
    ) -> None:
        super().__init__()
        self.image_shape = check_counts("image_shape", image_shape, 3)
        self.kind = check_choice("pose", pose, tuple(POSES))
        self.pose_shape = POSES[pose]
        self.count = check_count("capsules", capsules)
        dims, pixels = prod(self.pose_shape), prod(self.image_shape)
        read, drawn = check_count("recognition", recognition), check_count("generation", generation)
        self.recognize = nn.Linear(pixels, capsules * read)
        self.present = PerCapsule(capsules, read, 1)
        self.locate = PerCapsule(capsules, read, dims)
        self.generate = PerCapsule(capsules, dims, drawn)
        # Drawings are sums over units, and the image is a sum over capsules: one matrix does both.
        self.draw = nn.Linear(capsules * drawn, pixels, bias=False)

    def forward(self, images: Tensor, change: Tensor) -> TransformedOutput:
        """Draw images `[B, C, H, W]` as they would be after `change`."""
        capsules = self.look(images)
        return TransformedOutput(self.redraw(self.move(capsules, change)), capsules)

    def look(self, images: Tensor) -> Capsules:
        """Pose and presence of every capsule."""
        sizes = dict(zip("CHW", self.image_shape))
        check_tensor("images", images, "B C H W", **sizes)
        check_dtype("images", images, self.draw.weight)
        units = torch.sigmoid(self.recognize(images.flatten(1))).unflatten(1, (self.count, -1))
        presence = torch.sigmoid(self.present(units)).squeeze(2)
        return Capsules(self.locate(units).unflatten(2, self.pose_shape), presence)

    def move(self, capsules: Capsules, change: Tensor) -> Capsules:
        """The capsules of the transformed image: the known change applied to every pose."""
        if self.kind == "shift":
            check_tensor("change", change, "B D", D=2)
            return Capsules(capsules.pose + change.unsqueeze(1), capsules.activation)
        check_tensor("change", change, "B R S", R=3, S=3)
        return Capsules(change.unsqueeze(1) @ capsules.pose, capsules.activation)

    def redraw(self, capsules: Capsules) -> Tensor:
        """The image of these capsules: the sum of their drawings, each times its presence."""
        units = torch.sigmoid(self.generate(capsules.pose.flatten(2)))
        weighted = units * capsules.activation.unsqueeze(2)
        return self.draw(weighted.flatten(1)).unflatten(1, self.image_shape)


class PerCapsule(nn.Module):
    """One linear map per capsule: `[B, K, I]` to `[B, K, O]`.

    Args:
        count: K, number of capsules.
        size_in: I.
        size_out: O.
    """

    def __init__(self, count: int, size_in: int, size_out: int) -> None:
        super().__init__()
        spread = size_in**-0.5
        self.weight = nn.Parameter(torch.empty(count, size_in, size_out).uniform_(-spread, spread))
        self.bias = nn.Parameter(torch.empty(count, size_out).uniform_(-spread, spread))

    def forward(self, values: Tensor) -> Tensor:
        """Apply the map of each capsule."""
        return torch.einsum("bki,kio->bko", values, self.weight) + self.bias


class PlainAutoencoder(nn.Module):
    """A baseline with as many units as a transforming auto-encoder, fully connected, without capsules.

    Its code has as many numbers. The change is a further input of the generation units.

    Args:
        image_shape: (channels, height, width).
        recognition: recognition units in all.
        code: numbers in the code.
        generation: generation units in all.
        change: numbers in a change.
    """

    def __init__(
        self, image_shape: tuple[int, int, int], recognition: int, code: int, generation: int, change: int
    ) -> None:
        super().__init__()
        self.image_shape = image_shape
        self.recognize = nn.Linear(prod(image_shape), recognition)
        self.code = nn.Linear(recognition, code)
        self.generate = nn.Linear(code + change, generation)
        self.draw = nn.Linear(generation, prod(image_shape))

    def forward(self, images: Tensor, change: Tensor) -> TransformedOutput:
        """Draw images as they would be after the change; the code is returned as capsules of one number."""
        code = self.code(torch.sigmoid(self.recognize(images.flatten(1))))
        units = torch.sigmoid(self.generate(torch.cat([code, change.flatten(1)], dim=1)))
        drawn = self.draw(units).unflatten(1, self.image_shape)
        return TransformedOutput(drawn, Capsules(code.unsqueeze(2), torch.ones_like(code)))
