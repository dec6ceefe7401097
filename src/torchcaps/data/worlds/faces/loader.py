from __future__ import annotations

import os

from torchcaps.data.imageset import ImageSet
from torchcaps.data.registry import register_dataset
from torchcaps.data.worlds.faces.world import FACES
from torchcaps.data.worlds.flat.options import Range, SceneOptions
from torchcaps.data.worlds.flat.scenes import Scenes, draw_world, load_world


def draw_scenes(
    kind: str = "single",
    count: int = 16,
    *,
    seed: int = 0,
    start: int = 0,
    split: str = "train",
    options: SceneOptions | None = None,
) -> Scenes:
    """Draw scenes of faces and other things made of eyes, a nose and a mouth, with the exact truth.

    Args:
        kind: see `faces`.
        count: number of scenes.
        seed: other numbers give other scenes.
        start: index of the first scene; any batch of the sequence can be drawn alone.
        split: other splits have other scenes.
        options: see `SceneOptions`.

    Example:
        >>> scenes = draw_scenes("single", 5, options=SceneOptions(size=48, outline=True))
        >>> scenes.images.shape, scenes.part_pose.shape, scenes.whole_pose.shape
        (torch.Size([5, 1, 48, 48]), torch.Size([5, 4, 4]), torch.Size([5, 1, 4]))
    """
    return draw_world(FACES, kind, count, seed=seed, start=start, split=split, options=options)


@register_dataset("faces", random=True)
def faces(
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
    outline: bool = False,
    clutter: int = 0,
    noise: float = 0.0,
    texture: float = 0.0,
) -> ImageSet:
    """Draw faces, and other things that are made of the same parts: two eyes, a nose and a mouth.

    Parts vary in shape (height of the eyes and where they look, width of the nose, lips and bend of the
    mouth) and a little in place, angle and scale. The other wholes are a bicycle, a boat and a snowman. Kinds
    of scenes, and their labels:

    - `parts`: loose parts; labels `[N, parts]` are their types;
    - `single`: one whole; labels `[N]` are its type, four classes;
    - `scrambled`: the parts of one whole put together in a wrong way, or, in a share `intact` of the scenes,
      in the right way; labels `[N]` are the type of the whole or the fifth class `nothing`;
    - `crowded`: several wholes that may overlap, and up to two stray parts; labels `[N, wholes]`;
    - `twins`: two wholes of one type, angle and scale; labels `[N, 2]`.

    The metadata is the truth as in `Scenes`, with poses also as x, y, angle and scale (`part_numbers` …).

    Args:
        split: `"train"` or `"test"`.
        data_dir: not used.
        kind: of the scenes.
        count: number of scenes, by default 10,000 for train and 2,000 for test; a larger number keeps the
            first ones as they are.
        seed: other numbers give other scenes.
        size: images are `[N, 1, size, size]`.
        angle: range of angles in degrees; of the whole or each loose part.
        scale: range of scales, 1 fills the image; the default depends on the kind.
        offset: range of distances from the middle of the image; the default depends on the kind.
        test_angle: range of angles in the test split, by default that of the train split.
        test_scale: range of scales in the test split.
        test_offset: range of offsets in the test split.
        parts: number of loose parts.
        wholes: number of wholes in a crowded scene.
        separation: range of distances between twins, in units of their scale.
        intact: share of scrambled scenes that hold a whole.
        outline: whether wholes and scrambled wholes have a head around them.
        clutter: number of strokes and dots behind the parts.
        noise: standard deviation of the noise on each pixel.
        texture: strength 0..1 of stripes on parts and background.

    Example:
        >>> unseen = faces("test", count=4, kind="scrambled", angle=(-30, 30), test_angle=(150, 210))
        >>> unseen.images.shape, unseen.classes
        (torch.Size([4, 1, 64, 64]), ('face', 'bicycle', 'boat', 'snowman', 'nothing'))
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
        outline=outline,
        clutter=clutter,
        noise=noise,
        texture=texture,
    )
    return load_world(
        FACES,
        split,
        kind,
        count,
        seed,
        options,
        test_angle=test_angle,
        test_scale=test_scale,
        test_offset=test_offset,
    )
