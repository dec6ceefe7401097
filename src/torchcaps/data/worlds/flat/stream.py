from __future__ import annotations

from collections.abc import Iterator

from torchcaps._checks import check_count
from torchcaps.data.worlds.flat.options import SceneOptions
from torchcaps.data.worlds.flat.scenes import Scenes, draw_world
from torchcaps.data.worlds.flat.world import World

_AHEAD = 128  # scenes that are drawn together


class SceneStream:
    """Batches of scenes with their truth, new ones in every epoch, drawn while they are used.

    Batch k of epoch e depends on the arguments, e and k only, so that a run that stopped can continue with
    `epoch(e, start=k)`. Only a few batches are in memory: they are drawn together, which is faster.

    Args:
        world: such as `SHAPES`.
        kind: of the scenes.
        batch_size: scenes per batch.
        batches: per epoch.
        seed: names the sequence of scenes.
        split: other splits have other scenes.
        options: what they look like.

    Example:
        >>> from torchcaps.data.worlds.shapes import SHAPES
        >>> stream = SceneStream(SHAPES, "parts", batch_size=8, batches=2, options=SceneOptions(size=32))
        >>> for scenes in stream.epoch(3):
        ...     images, poses = scenes.images.float() / 255, scenes.part_pose.float()
        >>> images.shape, poses.shape
        (torch.Size([8, 1, 32, 32]), torch.Size([8, 3, 4]))
    """

    def __init__(
        self,
        world: World,
        kind: str,
        *,
        batch_size: int,
        batches: int,
        seed: int = 0,
        split: str = "train",
        options: SceneOptions | None = None,
    ) -> None:
        self.world = world
        self.kind = kind
        self.batch_size = check_count("batch_size", batch_size)
        self.batches = check_count("batches", batches)
        self.seed = seed
        self.split = split
        self.options = options

    def __len__(self) -> int:
        """Count the batches of an epoch."""
        return self.batches

    def epoch(self, number: int, start: int = 0) -> Iterator[Scenes]:
        """Iterate over the batches of an epoch, from batch `start` on."""
        check_count("number", number, 0)
        size = self.batch_size
        ahead = max(1, _AHEAD // size)
        for first in range(start, self.batches, ahead):
            count = min(ahead, self.batches - first)
            scenes = draw_world(
                self.world,
                self.kind,
                count * size,
                seed=self.seed,
                start=(number * self.batches + first) * size,
                split=self.split,
                options=self.options,
            )
            for batch in range(count):
                yield scenes[batch * size : (batch + 1) * size]
