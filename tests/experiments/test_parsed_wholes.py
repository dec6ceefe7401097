import math

import pytest
import torch

from torchcaps import Instances
from torchcaps.data.worlds.flat import SceneOptions, draw_world
from torchcaps.data.worlds.shapes import SHAPES
from torchcaps.experiments.wholes.groups import measure_groups, same_tree, train_groups
from torchcaps.experiments.wholes.network import network_card, part_streams
from torchcaps.experiments.wholes.parsing import (
    area_under_curve,
    assign_nearest,
    crowd_quality,
    measure_scrambled,
    true_parts,
)
from torchcaps.experiments.wholes.training import align_frames, train_wholes
from torchcaps.layers import ConstellationCaps, ParsedWholes
from torchcaps.models import PartsCapsNet
from torchcaps.models.parts_capsnet import ParsedImage
from torchcaps.models.weights import load_weights, save_weights


def scenes_of(kind: str, count: int = 60, seed: int = 1, **options):
    return draw_world(SHAPES, kind, count, seed=seed, options=SceneOptions(size=64, **options))


@pytest.fixture(scope="module")
def layer() -> ConstellationCaps:
    """Wholes learned from true parts and class labels, upright."""
    torch.manual_seed(0)
    drawn = scenes_of("single", 240, seed=0, angle=(-30, 30))
    wholes = ConstellationCaps(3, 8)
    train_wholes(wholes, true_parts(drawn), drawn.labels, steps=40, batch_size=50)
    align_frames(wholes, true_parts(drawn), drawn.labels, drawn.whole_pose[:, 0])
    return wholes


@pytest.mark.parametrize("kind", ["crowded", "ambiguous", "twins"])
def test_true_parts_give_the_true_wholes(layer: ConstellationCaps, kind: str) -> None:
    drawn = scenes_of(kind)
    quality = crowd_quality(layer.parse(true_parts(drawn), 6).wholes, drawn)
    assert quality.f1 > 0.97
    assert quality.exact > 0.95
    assert quality.place < 0.02
    assert quality.angle < 1


def exact_wholes(drawn) -> Instances:
    upright = torch.tensor([1.0, 0, 0, 0], dtype=torch.float64)
    pose = torch.where(drawn.whole_mask[..., None], drawn.whole_pose, upright)
    return Instances(drawn.whole_type, pose.float(), drawn.whole_mask.float())


def test_quality_counts_what_is_wrong() -> None:
    drawn = scenes_of("crowded", 20)
    exact = exact_wholes(drawn)
    assert crowd_quality(exact, drawn)[:5] == (1, 1, 1, 1, 1)
    # In each scene one whole of four is turned or moved too far, too large, or missing.
    turn = torch.polar(torch.tensor(1.0), torch.tensor(math.radians(6.0)))
    wrong = exact.pose.clone()
    wrong[:, 0, :2] = torch.view_as_real(torch.view_as_complex(wrong[:, 0, :2].contiguous()) * turn)
    moved, grown = exact.pose.clone(), exact.pose.clone()
    moved[:, 1, 2] += 0.11 * moved[:, 1, :2].norm(dim=-1)
    grown[:, 2, :2] *= 1.11
    for pose in (wrong, moved, grown):
        quality = crowd_quality(exact._replace(pose=pose), drawn)
        assert quality.f1 == pytest.approx(0.75)
        assert quality.named == 1
        assert quality.exact == 0
    missing = exact._replace(activation=exact.activation * torch.tensor([1.0, 1, 1, 0]))
    quality = crowd_quality(missing, drawn)
    assert (quality.recall, quality.precision) == (pytest.approx(0.75), 1)


def exact_tree(drawn) -> ParsedImage:
    parts = true_parts(drawn)
    wholes, groups = drawn.whole_type.shape[1], drawn.group_type.shape[1]
    group = Instances(drawn.group_type, drawn.group_pose.float(), torch.ones(drawn.group_type.shape))
    return ParsedImage(
        parts,
        ParsedWholes(exact_wholes(drawn), drawn.part_whole, torch.zeros(*parts.kind.shape, wholes)),
        ParsedWholes(group, drawn.whole_group, torch.zeros(len(drawn), wholes, groups)),
    )


def test_only_the_exact_tree_is_the_same() -> None:
    drawn = scenes_of("groups", 20)
    tree = exact_tree(drawn)
    assert same_tree(tree, drawn).all()
    parts, wholes, groups = tree
    stray = wholes.parent.clone()
    stray[:, 0] = -1
    swapped = torch.where(wholes.parent >= 0, 1 - wholes.parent, -1)  # both wholes keep their types
    far = parts._replace(pose=parts.pose + torch.tensor([0.0, 0, 0.2, 0]))
    changes = {
        "a part that belongs to nothing": tree._replace(wholes=wholes._replace(parent=stray)),
        "parts of the other whole": tree._replace(wholes=wholes._replace(parent=swapped)),
        "parts elsewhere": tree._replace(parts=far),
        "parts of other kinds": tree._replace(parts=parts._replace(kind=(parts.kind + 1) % 3)),
        "another group": tree._replace(
            groups=groups._replace(wholes=groups.wholes._replace(kind=(groups.wholes.kind + 1) % 6))
        ),
        "a whole outside of the group": tree._replace(
            groups=groups._replace(parent=torch.stack([groups.parent[:, 0], groups.parent[:, 1] * 0 - 1], 1))
        ),
    }
    for name, change in changes.items():
        assert not same_tree(change, drawn).any(), name


def test_pairs_are_the_nearest_and_unique() -> None:
    torch.manual_seed(0)
    distance = torch.rand(50, 4, 6)
    index = assign_nearest(distance)
    assert all(len(set(row)) == 4 for row in index.tolist())
    nearest = distance.flatten(1).min(1)
    rows = torch.arange(50)
    assert torch.equal(index[rows, nearest.indices // 6], nearest.indices % 6)


def test_area_under_curve() -> None:
    positive = torch.tensor([True] * 3 + [False] * 3)
    assert area_under_curve(torch.tensor([5.0, 4, 3, 2, 1, 0]), positive) == 1
    assert area_under_curve(torch.zeros(6), positive) == 0.5
    assert area_under_curve(torch.tensor([0.0, 1, 2, 3, 4, 5]), positive) == 0


def test_untrained_networks_can_be_measured_and_saved(tmp_path) -> None:
    torch.manual_seed(0)
    model = PartsCapsNet(num_classes=8, in_channels=1, image_size=64, channels=2, groups=6).eval()
    assert 0 <= measure_scrambled(model, SHAPES, count=10) <= 1
    train_groups(model, SHAPES, count=60, steps=2)
    assert 0 <= measure_groups(model, SHAPES, count=10).exact <= 1
    with pytest.raises(ValueError, match="no groups"):
        train_groups(PartsCapsNet(num_classes=8, in_channels=1, image_size=64, channels=2), SHAPES)
    model = PartsCapsNet(num_classes=8, in_channels=1, image_size=64, groups=6).eval()
    save_weights(tmp_path / "model.safetensors", model, network_card(model, SHAPES, "a command"))
    again, card = load_weights(tmp_path / "model.safetensors")
    assert card.classes == SHAPES.whole.names
    assert card.facts["kinds"] == ["rectangle", "triangle", "ellipse"]
    assert card.facts["groups"][0] == "harbor"
    images = scenes_of("single", 2).images.float() / 255
    assert torch.equal(again(images).logits, model(images).logits)


def test_streams_of_loose_parts_differ_in_density_and_size() -> None:
    first, crowded, _ = (next(iter(stream.epoch(0))) for stream in part_streams(SHAPES, steps=8))
    assert first.part_type.shape == (10, 7)
    assert crowded.part_type.shape == (14, 19)
    assert first.part_pose[..., :2].norm(dim=-1).mean() > 1.5 * crowded.part_pose[..., :2].norm(dim=-1).mean()
