from __future__ import annotations

from math import prod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from torchcaps._checks import check_choice, check_count, check_counts, check_dtype, check_tensor
from torchcaps.capsules import Capsules

POSES = {"shift": (2,), "affine": (3, 3)}


class Redrawn(NamedTuple):
    """What a transforming auto-encoder makes of a batch.

    Attributes:
        images: `[B, C, H, W]`, the moved images as it draws them.
        capsules: what it saw before the move: pose `[B, K, 2]` or `[B, K, 3, 3]`, activation p `[B, K]`.
    """

    images: Tensor
    capsules: Capsules


class TransformingAutoencoder(nn.Module):
    r"""The network of *Transforming Auto-encoders* (Hinton, Krizhevsky, Wang 2011).

    Each capsule looks at the whole image with recognition units of its own, which say whether its part is
    there and where. It is then told how the image is to be moved, moves its pose so, and draws its part
    with generation units that know the moved pose and nothing else of the image:

    .. math:: h_k = \sigma(R_k x), \quad p_k = \sigma(a_k^T h_k), \quad M_k = P_k h_k, \quad
        y = \sum_k p_k V_k\, \sigma(U_k (T \circ M_k))

    For shifts the pose is (x, y) and :math:`T \circ M = M + (\Delta x, \Delta y)`; for affine changes it is a
    3×3 matrix and :math:`T \circ M = T M`. Nobody says what a capsule's coordinates shall be: that they are
    coordinates is what it must learn to draw the moved image.

    Args:
        image_shape: (channels, height, width).
        capsules: K, their number.
        recognition: recognition units of each.
        generation: generation units of each.
        pose: `"shift"` or `"affine"`.

    Shape: images `[B, C, H, W]` and change `[B, 2]` (`shift`) or `[B, 3, 3]` (`affine`) to `Redrawn`.

    Example:
        >>> network = TransformingAutoencoder((1, 22, 22), capsules=5)
        >>> resample_each_epoch = network(torch.rand(4, 1, 22, 22), torch.tensor([[1.0, 0.0]]).expand(4, 2))
        >>> resample_each_epoch.images.shape, resample_each_epoch.capsules.pose.shape
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
        seen, drawn = check_count("recognition", recognition), check_count("generation", generation)
        self.recognize = nn.Linear(pixels, capsules * seen)
        self.present = PerCapsule(capsules, seen, 1)
        self.locate = PerCapsule(capsules, seen, dims)
        self.generate = PerCapsule(capsules, dims, drawn)
        # Every capsule's drawing is a sum over its units, and the image a sum over capsules: one matrix.
        self.draw = nn.Linear(capsules * drawn, pixels, bias=False)

    def forward(self, images: Tensor, change: Tensor) -> Redrawn:
        """Draw images `[B, C, H, W]` as they would be after `change`."""
        capsules = self.look(images)
        return Redrawn(self.redraw(self.move(capsules, change)), capsules)

    def look(self, images: Tensor) -> Capsules:
        """Pose and presence of every capsule."""
        sizes = dict(zip("CHW", self.image_shape))
        check_tensor("images", images, "B C H W", **sizes)
        check_dtype("images", images, self.draw.weight)
        units = torch.sigmoid(self.recognize(images.flatten(1))).unflatten(1, (self.count, -1))
        presence = torch.sigmoid(self.present(units)).squeeze(2)
        return Capsules(self.locate(units).unflatten(2, self.pose_shape), presence)

    def move(self, capsules: Capsules, change: Tensor) -> Capsules:
        """Capsules as they would be if the image had been moved: the known change put to every pose."""
        if self.kind == "shift":
            check_tensor("change", change, "B D", D=2)
            return Capsules(capsules.pose + change.unsqueeze(1), capsules.activation)
        check_tensor("change", change, "B R S", R=3, S=3)
        return Capsules(change.unsqueeze(1) @ capsules.pose, capsules.activation)

    def redraw(self, capsules: Capsules) -> Tensor:
        """The image that capsules stand for: the sum of what each draws, as far as it is present."""
        units = torch.sigmoid(self.generate(capsules.pose.flatten(2)))
        weighted = units * capsules.activation.unsqueeze(2)
        return self.draw(weighted.flatten(1)).unflatten(1, self.image_shape)


class PerCapsule(nn.Module):
    """A linear map of its own for every capsule: `[B, K, I]` to `[B, K, O]`.

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
        """Map each capsule's numbers by its own matrix."""
        return torch.einsum("bki,kio->bko", values, self.weight) + self.bias


class PlainAutoencoder(nn.Module):
    """As many units as a transforming auto-encoder has, without capsules: all see all.

    The code has as many numbers; the change stands beside it as further input, and what to do with it is left
    to the generation units.

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

    def forward(self, images: Tensor, change: Tensor) -> Redrawn:
        """Draw images as they would be after the change; its code as capsules that say one number each."""
        code = self.code(torch.sigmoid(self.recognize(images.flatten(1))))
        units = torch.sigmoid(self.generate(torch.cat([code, change.flatten(1)], dim=1)))
        drawn = self.draw(units).unflatten(1, self.image_shape)
        return Redrawn(drawn, Capsules(code.unsqueeze(2), torch.ones_like(code)))
