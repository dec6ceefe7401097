"""How fast are scenes of the worlds `shapes` and `faces` drawn?

Prints scenes per second of CPU time on one core, truth included, for each kind of scene. With `--sheets`,
writes the pictures of docs/worlds.md into a folder instead.

    OMP_NUM_THREADS=1 python benchmarks/worlds.py
    python benchmarks/worlds.py --sheets docs
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import torch

from torchcaps.data import ImageSet, contact_sheet
from torchcaps.data.worlds.faces import FACES
from torchcaps.data.worlds.flat import SceneOptions, Scenes, World, draw_world
from torchcaps.data.worlds.flat.scenes import world_kinds
from torchcaps.data.worlds.shapes import SHAPES

COLUMNS = 8
BUSY: dict[str, Any] = {"clutter": 12, "noise": 0.03, "texture": 0.6}


def scenes_per_second(world: World, kind: str, count: int, options: SceneOptions) -> float:
    draw_world(world, kind, 256, options=options)
    best = 0.0
    for repetition in range(5):
        start = time.process_time()
        draw_world(world, kind, count, start=repetition * count, options=options)
        best = max(best, count / (time.process_time() - start))
    return best


def row(world: World, kind: str, **options: Any) -> Scenes:
    return draw_world(world, kind, COLUMNS, seed=7, options=SceneOptions(**options))


def write_sheet(world: World, folder: Path) -> Path:
    rows: list[tuple[str, Scenes]] = []
    if world is SHAPES:
        rows += [(kind, row(world, kind, intact=0.0)) for kind in world_kinds(world)]
        rows += [("single", row(world, "single", **BUSY))]
    else:
        rows += [("parts", row(world, "parts"))]
        rows += [("single", row(world, "single", angle=(-15, 15), outline=True))]
        rows += [("single", row(world, "single"))]
        rows += [("scrambled", row(world, "scrambled", intact=0.0, angle=(-15, 15), outline=True))]
        rows += [(kind, row(world, kind, outline=True)) for kind in ("crowded", "twins")]
        rows += [("single", row(world, "single", outline=True, **BUSY))]
    captions, images = [], []
    for kind, scenes in rows:
        images.append(scenes.images)
        for labels in scenes.labels.reshape(COLUMNS, -1).tolist():
            captions.append(f"{kind}: {', '.join(scenes.classes[label] for label in labels)}")
    classes = tuple(sorted(set(captions)))
    labels = torch.tensor([classes.index(caption) for caption in captions])
    sheet = ImageSet(torch.cat(images), labels, classes)
    return contact_sheet(sheet, folder / f"{world.name}.png", rows=len(rows), columns=COLUMNS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=2048)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--sheets", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    for world in (SHAPES, FACES):
        if arguments.sheets:
            print(write_sheet(world, arguments.sheets))
            continue
        for kind in world_kinds(world):
            plain, busy = SceneOptions(size=arguments.size), SceneOptions(size=arguments.size, **BUSY)
            rates = [scenes_per_second(world, kind, arguments.count, options) for options in (plain, busy)]
            print(f"{world.name:6}  {kind:9}  plain {rates[0]:6.0f}/s  with everything {rates[1]:6.0f}/s")


if __name__ == "__main__":
    main()
