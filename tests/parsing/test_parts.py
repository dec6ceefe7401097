"""Trees of networks that find parts and wholes."""

import pytest
import torch

from support.found_parts import find_something
from torchcaps import Instances, parse
from torchcaps.data.worlds.flat import SceneOptions
from torchcaps.data.worlds.shapes import draw_scenes
from torchcaps.layers import ParsedWholes
from torchcaps.models import PartsCapsNet
from torchcaps.models.parts_capsnet import ParsedImage
from torchcaps.parsing import ParseTree, turn_upright
from torchcaps.parsing.parts import part_masks

approx = pytest.approx


class Oracle(PartsCapsNet):
    """A network that finds what it is told."""

    found: ParsedImage

    def parse(self, images: torch.Tensor, *, wholes: int = 6, groups: int = 2) -> ParsedImage:
        return self.found


def oracle(parent: list[int], presence: list[float], whole: list[float]) -> ParseTree:
    """A tree of two wholes of one type, in one group, and parts along the diagonal of an image."""
    torch.manual_seed(0)
    model = Oracle(num_classes=2, in_channels=1, image_size=32, groups=1, channels=4)
    count = len(parent)
    place = torch.linspace(-0.75, 0.75, count)
    pose = torch.stack([torch.full((count,), 0.1), torch.zeros(count), place, place], -1)
    coupling = torch.nn.functional.one_hot(torch.tensor(parent) + 1, 3)[:, 1:].float()
    parts = Instances(torch.zeros(1, count, dtype=torch.long), pose[None], torch.tensor([presence]))
    ones = torch.tensor([[[0.0, 1.0, 0.0, 0.0]] * 2])
    wholes = ParsedWholes(
        Instances(torch.ones(1, 2, dtype=torch.long), ones, torch.tensor([whole])),
        torch.tensor([parent]),
        coupling[None],
    )
    groups = ParsedWholes(
        Instances(torch.zeros(1, 1, dtype=torch.long), ones[:, :1], torch.tensor([[0.9]])),
        torch.tensor([[0, 0]]),
        torch.ones(1, 2, 1),
    )
    model.found = ParsedImage(parts, wholes, groups)
    images = torch.zeros(1, 1, 32, 32)
    for number in range(count):
        x, y = int(16 + 16 * place[number]), int(16 - 16 * place[number])
        images[0, 0, max(0, y - 1) : y + 1, max(0, x - 1) : x + 1] = 1.0
    return parse(model, images)[0]


def test_two_wholes_of_one_type_are_two_nodes_with_their_parts() -> None:
    tree = oracle([0, 1, 1, 0, -1, -1], [0.9, 0.8, 0.3, 0.7, 0.6, 0.2], [0.99, 0.8])
    (group,) = tree.roots
    assert [(node.level, node.type, node.presence) for node in group.children] == [
        ("whole", 1, approx(0.99)),
        ("whole", 1, approx(0.8)),
    ]
    first, second = group.children
    assert [node.presence for node in first.children] == [approx(0.9), approx(0.7)]
    # A part that a whole uses is shown even if it is hardly there; a loose one is not.
    assert [node.presence for node in second.children] == [approx(0.8), approx(0.3)]
    assert [node.presence for node in tree.loose] == [approx(0.6)]
    assert second.children[0].share == approx(0.8 / 1.1)
    assert first.reading["angle"] == approx(90)
    # The place of a whole is the middle of its parts, weighted by presence.
    x = [16 - 12.0, 16 + 16 * (-0.75 + 3 * 0.3)]
    assert first.reading["x"] == approx((0.9 * x[0] + 0.7 * x[1]) / 1.6, abs=1e-4)
    assert first.mask is not None
    assert second.mask is not None
    assert not (first.mask * second.mask).any()
    torch.testing.assert_close(group.mask, first.mask + second.mask)


def test_parts_of_a_whole_below_the_threshold_are_loose() -> None:
    tree = oracle([0, 1, 1], [0.9, 0.8, 0.3], [0.99, 0.4])
    assert [len(node.children) for node in tree.nodes("whole")] == [1]
    assert [node.presence for node in tree.loose] == [approx(0.8)]
    tree = oracle([0, 1, 1], [0.9, 0.8, 0.7], [0.2, 0.4])
    assert not tree.roots
    assert len(tree.loose) == 3
    assert "loose" in str(tree)


@pytest.mark.parametrize("shift", [(4, 8), (-8, 4)])
def test_a_shift_of_the_image_shifts_the_tree(shift: tuple[int, int]) -> None:
    torch.manual_seed(1)
    sizes = {"channels": 4, "proposals": 200, "kinds": 1}
    model = PartsCapsNet(num_classes=2, in_channels=1, image_size=128, **sizes)
    images = torch.zeros(1, 1, 128, 128)
    images[..., 58:70, 60:68] = 60 * torch.rand(12, 8)
    down, right = shift
    before, after = parse(model, torch.cat([images, images.roll(shift, (2, 3))]), threshold=0.0)
    # Away from the border, which reaches half a receptive field inward.
    inner = [node for node in before.loose if all(48 < node.reading[axis] < 80 for axis in "xy")]
    assert inner
    for node in inner:
        assert any(
            other.presence == approx(node.presence, abs=1e-4)
            and other.reading["x"] == approx(node.reading["x"] + right, abs=0.01)
            and other.reading["y"] == approx(node.reading["y"] + down, abs=0.01)
            and other.reading["angle"] == approx(node.reading["angle"], abs=0.1)
            for other in after.loose
        )


def test_masks_of_parts_are_those_of_the_scene() -> None:
    scenes = draw_scenes("single", 40, split="test", options=SceneOptions(noise=0.02))
    images = scenes.images.float() / 255
    shares = part_masks(images, scenes.part_pose.float(), scenes.part_mask.float())
    wholes = torch.where(scenes.part_mask[..., None, None], shares, 0.0).sum(1) >= 0.5
    true = scenes.whole_masks()[:, 0] >= 0.5
    overlap = (wholes & true).sum((1, 2)) / (wholes | true).sum((1, 2))
    assert float(overlap.mean()) > 0.9
    assert float(shares.sum(1).max()) <= 1 + 1e-6


def test_turning_upright_changes_angles_and_no_scores() -> None:
    torch.manual_seed(0)
    model = PartsCapsNet(
        num_classes=3, in_channels=1, image_size=32, groups=2, channels=4, proposals=6
    ).double()
    find_something(model)
    model.eval()
    images = torch.rand(8, 1, 32, 32, dtype=torch.float64)
    before = model.parse(images)
    turn_upright(model, images)
    after = model.parse(images)
    assert before.groups is not None
    assert after.groups is not None
    for old, new in ((before.wholes, after.wholes), (before.groups, after.groups)):
        assert old.wholes.activation.gt(0).any()
        torch.testing.assert_close(new.wholes.activation, old.wholes.activation)
        torch.testing.assert_close(new.coupling, old.coupling)
        torch.testing.assert_close(new.wholes.pose[..., 2:], old.wholes.pose[..., 2:])
        torch.testing.assert_close(
            new.wholes.pose[..., :2].norm(dim=-1), old.wholes.pose[..., :2].norm(dim=-1)
        )
        for kind in range(3):
            mine = (new.wholes.kind == kind) & (new.wholes.activation > 0)
            unit = torch.nn.functional.normalize(new.wholes.pose[..., :2], dim=-1)
            mean = (unit * new.wholes.activation.unsqueeze(-1))[mine].sum(0)
            if mine.any():
                assert float(torch.atan2(mean[1], mean[0])) == approx(0, abs=1e-6)


def small_network() -> PartsCapsNet:
    torch.manual_seed(0)
    model = PartsCapsNet(num_classes=3, in_channels=1, image_size=32, channels=4, proposals=6)
    find_something(model)
    return model.eval()


def test_turning_upright_takes_a_list_of_images_as_well() -> None:
    images = torch.rand(4, 1, 32, 32)
    first, second = small_network(), small_network()
    turn_upright(first, images)
    turn_upright(second, list(images))
    assert not torch.equal(first.wholes.weight, small_network().wholes.weight)
    torch.testing.assert_close(second.wholes.weight, first.wholes.weight)
    turn_upright(second, [torch.rand(1, 32, 32), torch.rand(1, 40, 48)])


def test_turning_upright_names_what_is_wrong() -> None:
    images = torch.rand(2, 1, 32, 32)
    with pytest.raises(ValueError, match="must be a PartsCapsNet, got Linear"):
        turn_upright(torch.nn.Linear(1, 1), images)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"images\[1\] must be \[C, H, W\]"):
        turn_upright(small_network(), [images[0], images])
    for none in ([], images[:0]):
        with pytest.raises(ValueError, match="at least one image"):
            turn_upright(small_network(), none)
    with pytest.raises(ValueError, match="finite numbers"):
        turn_upright(small_network(), images * torch.nan)


def test_no_whole_is_found_below_one_half() -> None:
    """As the docstring and the help of the command say: a lower threshold shows more loose parts only."""
    model = small_network()
    images = torch.rand(16, 1, 32, 32)
    low, half = parse(model, images, threshold=0.0), parse(model, images)
    assert any(tree.nodes("whole") for tree in half)
    for first, second in zip(low, half):
        assert first.nodes("whole") == second.nodes("whole")
