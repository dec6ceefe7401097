"""The animation of the README: `python docs/figures/turning.py` writes turning.webp.

A scene of the world `shapes` turns through 360° while the parse tree beside it stays the same. What the
READMEs and the site say of it is checked for every frame; if it is not so, nothing is written. turning.png is
the first frame, for readers who asked their system for less motion.
"""

from __future__ import annotations

import io
import math
from pathlib import Path

import torch
from PIL import Image, ImageOps

import torchcaps
from torchcaps.data.worlds.flat import SceneOptions, pose_numbers
from torchcaps.data.worlds.shapes import draw_scenes
from torchcaps.models import pretrained_path
from torchcaps.models.weights import load_weights
from torchcaps.parsing import Names, Node, ParseTree

HERE = Path(__file__).parent
STEP = 10  # degrees between two frames
SCENE = 8  # a street; see docs/parts.md for how many scenes are read without a mistake
TREE = "street(house(rectangle triangle) truck(ellipse ellipse rectangle rectangle))"
TOLERANCE = 5.0  # degrees between the angle of a whole in the scene and in the tree


def outline(node: Node) -> str:
    """The names in a tree: what does not change when the scene turns."""
    inside = " ".join(map(outline, node.children))
    return f"{node.name}({inside})" if inside else node.name


def sort_children(node: Node) -> None:
    """By name, then from left to right in the whole: by share, the rows of the tree would jump."""
    angle = math.radians(node.reading["angle"])

    def place(child: Node) -> float:
        right, down = (child.reading[key] - node.reading[key] for key in ("x", "y"))
        return right * math.cos(angle) - down * math.sin(angle)

    node.children.sort(key=lambda child: (child.name, place(child)))
    for child in node.children:
        sort_children(child)


def check(tree: ParseTree, angles: dict[str, float]) -> None:
    """The tree has the right names, no loose part, and the angles of the scene."""
    assert [outline(root) for root in tree.roots] == [TREE], tree
    assert not tree.loose, tree
    for node in tree.nodes("whole"):
        difference = (node.reading["angle"] - angles[node.name] + 180) % 360 - 180
        assert abs(difference) < TOLERANCE, (node.name, node.reading["angle"], angles[node.name])


def draw(tree: ParseTree) -> Image.Image:
    """One frame, drawn by the library."""
    buffer = io.BytesIO()
    tree.draw().savefig(buffer, format="png", dpi=95)
    return Image.open(buffer).convert("RGB")


def main() -> None:
    """Read the scene at every angle, check each tree, and write the frames."""
    model, card = load_weights(pretrained_path("parts_capsnet", "shapes"))
    frames = []
    for angle in range(0, 360, STEP):
        options = SceneOptions(size=96, angle=(angle, angle), scale=(1, 1), offset=(0, 0))
        scene = draw_scenes("groups", 1, start=SCENE, options=options)
        with torch.no_grad():
            (tree,) = torchcaps.parse(model.eval(), scene.images / 255, names=Names.of_card(card))
        for root in tree.roots:
            sort_children(root)
        names = [scene.world.whole.names[kind] for kind in scene.whole_type[0]]
        angles = torch.rad2deg(pose_numbers(scene.whole_pose)[0, :, 2]).tolist()
        check(tree, dict(zip(names, angles)))
        frames.append(draw(tree))
    assert len({frame.size for frame in frames}) == 1
    # The widest text ends before the right edge: no empty margin.
    used = max(ImageOps.invert(frame).getbbox()[2] for frame in frames)
    frames = [frame.crop((0, 0, used + 8, frame.height)) for frame in frames]
    frames[0].quantize(128, dither=Image.Dither.NONE).save(HERE / "turning.png", optimize=True)
    frames[0].save(
        HERE / "turning.webp",
        save_all=True,
        append_images=frames[1:],
        duration=110,
        loop=0,
        quality=60,
        method=6,
    )
    print(len(frames), "frames,", (HERE / "turning.webp").stat().st_size // 1024, "kB")


if __name__ == "__main__":
    main()
