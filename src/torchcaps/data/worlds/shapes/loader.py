from __future__ import annotations

import os

from torchcaps.data.imageset import ImageSet
from torchcaps.data.registry import register_dataset
from torchcaps.data.worlds.flat.options import Range, SceneOptions
from torchcaps.data.worlds.flat.scenes import Scenes, draw_world, load_world
from torchcaps.data.worlds.shapes.world import SHAPES


def draw_scenes(
    kind: str = "single",
    count: int = 16,
    *,
    seed: int = 0,
    start: int = 0,
    split: str = "train",
    options: SceneOptions | None = None,
) -> Scenes:
    """Draw scenes of shapes, with the exact truth about every part, whole and group.

    Args:
        kind: see `shapes`.
        count: number of scenes.
        seed: other numbers give other scenes.
        start: index of the first scene; any batch of the sequence can be drawn alone.
        split: other splits have other scenes.
        options: see `SceneOptions`.

    Example:
        >>> scenes = draw_scenes("groups", 5, options=SceneOptions(size=48, angle=(-30, 30)))
        >>> scenes.images.shape, scenes.part_pose.shape, scenes.whole_pose.shape, scenes.group_pose.shape
        (torch.Size([5, 1, 48, 48]), torch.Size([5, 8, 4]), torch.Size([5, 2, 4]), torch.Size([5, 1, 4]))
        >>> scenes.part_masks().shape
        torch.Size([5, 8, 48, 48])
    """
    return draw_world(SHAPES, kind, count, seed=seed, start=start, split=split, options=options)


@register_dataset("shapes", random=True)
def shapes(
    split: str = "train",
    *,
    data_dir: str | os.PathLike[str] | None = None,
    kind: str = "single",
    count: int | None = None,
    seed: int = 0,
    size: int = 64,
    angle: Range = (-180.0, 180.0),
    scale: Range | None = None,
    offset: Range | None = None,
    test_angle: Range | None = None,
    test_scale: Range | None = None,
    test_offset: Range | None = None,
    parts: int = 3,
    wholes: int = 4,
    separation: Range = (0.3, 1.6),
    intact: float = 0.5,
    clutter: int = 0,
    noise: float = 0.0,
    texture: float = 0.0,
) -> ImageSet:
    """Draw wholes made of rectangles, triangles and ellipses, and groups of wholes: a hierarchy of 3 levels.

    Every part has a dark mark that shows which way up it is. House and boat, fish and ice cream, truck and
    robot are made of the same parts in another relation; so are the groups harbor and dock, street and
    garage made of the same wholes. Kinds of scenes, and their labels:

    - `parts`: loose parts; labels `[N, parts]` are their types;
    - `single`: one whole; labels `[N]` are its type, eight classes;
    - `scrambled`: the parts of one whole put together in a wrong way, or, in a share `intact` of the scenes,
      in the right way; labels `[N]` are the type of the whole or the ninth class `nothing`;
    - `crowded`: several wholes that may overlap, and up to two stray parts; labels `[N, wholes]`;
    - `twins`: two wholes of one type, angle and scale; labels `[N, 2]`;
    - `ambiguous`: two wholes of one type, between which a part of each agrees on a whole of another type, the
      decoy; labels `[N, 2]`;
    - `groups`: one group of wholes; labels `[N]` are its type, six classes.

    The metadata is the truth as in `Scenes`, with poses also as x, y, angle and scale (`part_numbers` …).

    Args:
        split: `"train"` or `"test"`.
        data_dir: not used.
        kind: of the scenes.
        count: number of scenes, by default 10,000 for train and 2,000 for test; a larger number keeps the
            first ones as they are.
        seed: other numbers give other scenes.
        size: images are `[N, 1, size, size]`.
        angle: range of angles in degrees; of the whole, the group or each loose part.
        scale: range of scales, 1 fills the image; the default depends on the kind.
        offset: range of distances from the middle of the image; the default depends on the kind.
        test_angle: range of angles in the test split, by default that of the train split.
        test_scale: range of scales in the test split.
        test_offset: range of offsets in the test split.
        parts: number of loose parts.
        wholes: number of wholes in a crowded scene.
        separation: range of distances between twins, in units of their scale.
        intact: share of scrambled scenes that hold a whole.
        clutter: number of strokes and dots behind the parts.
        noise: standard deviation of the noise on each pixel.
        texture: strength 0..1 of stripes on parts and background.

    Example:
        >>> unseen = shapes("test", count=4, angle=(-30, 30), test_angle=(90, 270))
        >>> unseen.images.shape, unseen.metadata["part_pose"].shape
        (torch.Size([4, 1, 64, 64]), torch.Size([4, 4, 4]))
    """
    options = SceneOptions(
        size=size,
        angle=angle,
        scale=scale,
        offset=offset,
        parts=parts,
        wholes=wholes,
        separation=separation,
        intact=intact,
        clutter=clutter,
        noise=noise,
        texture=texture,
    )
    return load_world(
        SHAPES,
        split,
        kind,
        count,
        seed,
        options,
        test_angle=test_angle,
        test_scale=test_scale,
        test_offset=test_offset,
    )
