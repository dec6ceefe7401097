from collections.abc import Iterator

import pytest
import torch

from torchcaps.parsing import Node, ParseTree


def tree() -> ParseTree:
    reading = {"x": 10.0, "y": 20.0, "angle": 90.0, "scale": 5.0}
    parts = [
        Node("part", 0, "wall", 0.9, (1, 0, 0, 0), dict(reading), True, coupling=0.25, share=0.6),
        Node("part", 1, "roof", 0.8, (1, 0, 0, 0), dict(reading), True, coupling=1.0, share=0.4),
    ]
    mask = torch.zeros(40, 30)
    mask[15:25, 5:15] = 1.0
    house = Node("whole", 0, "house", 0.95, (1, 0, 0, 0), dict(reading), True, box=(5, 15, 15, 25))
    house.children, house.mask = parts, mask
    stray = Node("part", 2, "wheel", 0.7, (1, 0, 0, 0), dict(reading), True)
    return ParseTree((40, 30), [house], [stray])


def texts(figure: object) -> Iterator[str]:
    for axes in figure.axes:  # type: ignore[attr-defined]
        yield from (text.get_text() for text in axes.texts)


def test_a_figure_has_every_name_and_a_wider_line_for_a_larger_coupling() -> None:
    figure = tree().draw()
    found = list(texts(figure))
    for name in ("image, 30×40 px", "house", "wall", "roof", "loose wheel"):
        assert name in found
    widths = [line.get_linewidth() for line in figure.axes[1].lines if len(line.get_xdata()) == 3]
    house, wall, roof, _ = widths
    assert roof > wall
    assert house == 1.0


def test_the_frame_of_a_part_turns_against_the_clock() -> None:
    """At 90° the upper side of a part is to the left of its middle."""
    figure = tree().draw()
    marks = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert marks[0].get_xdata()[0] == pytest.approx(10 - 5)
    assert marks[0].get_ydata()[0] == pytest.approx(20)


@pytest.mark.parametrize(
    "image",
    [torch.zeros(1, 80, 60), torch.zeros(3, 40, 30, dtype=torch.uint8), 5 * torch.randn(2, 40, 30), None],
)
def test_any_image_is_drawn_in_the_coordinates_of_the_tree(image: torch.Tensor | None) -> None:
    figure = tree().draw(image)
    assert tuple(figure.axes[0].get_xlim()) == (0, 30)
    assert tuple(figure.axes[0].get_ylim()) == (40, 0)


def test_deep_levels_that_do_not_fit_are_left_out() -> None:
    roots = [Node("class", number, str(number), 0.5) for number in range(3)]
    for root in roots:
        root.children = [Node("primary", number, f"child {number}", 0.5) for number in range(30)]
    found = set(texts(ParseTree((8, 8), roots).draw()))
    assert {"0", "1", "2"} <= found
    assert "child 0" not in found


def test_an_empty_tree_says_so() -> None:
    empty = ParseTree((8, 8), [])
    assert "nothing was found" in str(empty)
    assert "nothing was found" in texts(empty.draw())


def test_an_image_that_is_no_tensor_is_named() -> None:
    with pytest.raises(ValueError, match=r"image must be a tensor \[C, H, W\], got ndarray"):
        tree().draw(torch.zeros(1, 40, 30).numpy())  # type: ignore[arg-type]


def test_masks_are_drawn_over_the_part_of_the_picture_that_was_seen() -> None:
    seen = tree()
    seen.size, seen.seen = (80, 100), (20.0, 0.0, 80.0, 80.0)
    _, mask = seen.draw().axes[0].images
    assert tuple(mask.get_extent()) == (20, 80, 80, 0)
