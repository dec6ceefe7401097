"""Places in the pixels of the picture as it came."""

import json
from pathlib import Path

import pytest
import torch
from PIL import Image

from torchcaps.data.formats.images import read_image
from torchcaps.parsing import Node, ParseTree
from torchcaps.parsing.fields import spread
from torchcaps.parsing.pictures import in_picture, seen_part


@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("picture", [(400, 300), (300, 400), (320, 320), (90, 500)])
@pytest.mark.parametrize("read", [(64, 64), (64, 86), (100, 60)])
def test_a_square_is_found_where_it_was_drawn(
    picture: tuple[int, int], read: tuple[int, int], pad: bool, tmp_path: Path
) -> None:
    """The middle of a bright square, read as the network reads it, goes back to where it was drawn."""
    height, width = picture
    image = Image.new("L", (width, height))
    x, y = width // 2 + 12, height // 2 - 8
    image.paste(255, (x - 15, y - 15, x + 15, y + 15))
    image.save(tmp_path / "square.png")
    pixels = read_image(tmp_path / "square.png", read, gray=True, pad=pad)[0].double()
    # Without its darker edge, which the interpolation makes.
    rows, columns = pixels.sum(1), pixels.sum(0)
    place_y = float((rows * (torch.arange(read[0]) + 0.5)).sum() / rows.sum())
    place_x = float((columns * (torch.arange(read[1]) + 0.5)).sum() / columns.sum())
    scale = float(pixels.sum() / 255) ** 0.5
    node = Node("part", 0, "square", 1.0, (), {"x": place_x, "y": place_y, "scale": scale}, True)
    node.box = (int(place_x), int(place_y), int(place_x) + 1, int(place_y) + 1)
    (found,) = in_picture(ParseTree(read, [node]), picture, seen_part(picture, read, pad)).roots
    unit = max(height / read[0], width / read[1])
    assert found.reading["x"] == pytest.approx(x, abs=0.2 * unit)
    assert found.reading["y"] == pytest.approx(y, abs=0.2 * unit)
    assert found.reading["scale"] == pytest.approx(30, rel=0.06)
    assert found.box is not None
    left, top, right, bottom = found.box
    assert left - unit <= x <= right + unit
    assert top - unit <= y <= bottom + unit


def test_boxes_stay_in_the_picture_and_trees_survive_json() -> None:
    node = Node("primary", 0, "primary 0", 1.0, box=(0, 0, 8, 32))
    inner = Node("class", 0, "cat", 1.0, children=[node], mask=torch.ones(32, 32))
    seen = seen_part((60, 120), (32, 32), pad=True)
    tree = in_picture(ParseTree((32, 32), [inner]), (60, 120), seen)
    (moved,) = tree.roots[0].children
    assert moved.box == (0, 0, 30, 60)
    assert node.box == (0, 0, 8, 32)
    assert tree.roots[0].mask is inner.mask
    again = ParseTree.from_dict(json.loads(json.dumps(tree.to_dict())))
    assert again == tree
    assert again.seen == (0.0, -30.0, 120.0, 90.0)


def test_masks_of_a_large_grid_take_little_memory() -> None:
    """A window for each of 6,400 positions would be 1.6 GB; the result is that of plain sums."""
    side = 250
    corner = torch.arange(80).repeat(80) * 3, torch.arange(80).repeat_interleave(80) * 3
    fields = torch.stack([corner[0], corner[1], corner[0] + 9, corner[1] + 9], 1)
    weight = torch.rand(2, len(fields))
    with torch.profiler.profile(profile_memory=True) as profile:
        masks = spread(weight, fields, side, side)
    assert max(event.self_cpu_memory_usage for event in profile.key_averages()) < 100e6
    # The pixel in the middle of a field, from all fields that hold it.
    x, y = 120, 150
    inside = (fields[:, 0] <= x) & (x < fields[:, 2]) & (fields[:, 1] <= y) & (y < fields[:, 3])
    across = torch.sin(torch.pi * (x + 0.5 - fields[inside, 0]) / 9) ** 2
    along = torch.sin(torch.pi * (y + 0.5 - fields[inside, 1]) / 9) ** 2
    expected = (weight[:, inside] * across * along).sum(1) / (across * along).sum()
    torch.testing.assert_close(masks[:, y, x], expected)
