"""Wholes that `ConstellationCaps.parse` finds in scenes."""

import math

import pytest
import torch
from torch import Tensor

from torchcaps import ConstellationCaps, Instances
from torchcaps.poses.similarity import SimilarityPose

SPACE = SimilarityPose()

# Two types of wholes: parts of kinds 0 and 1; and one part of kind 0 with two of kind 2. For each part its
# kind, role, and angle and place in the frame of the whole.
PLACES = {
    0: [(0, 0, (0.0, -0.5, 0.3)), (1, 0, (0.2, 0.5, -0.4))],
    1: [(0, 0, (0.4, 0.3, 0.0)), (2, 0, (1.0, -0.6, 0.2)), (2, 1, (-1.0, 0.1, 0.7))],
}


def similarity(angle: float, x: float, y: float, scale: float = 1.0) -> Tensor:
    return SPACE.from_parts(*torch.tensor([angle, scale, x, y], dtype=torch.float64))


def built() -> ConstellationCaps:
    """A layer that knows the two wholes."""
    layer = ConstellationCaps(3, 2, sigma=0.1, min_sigma=0.02).double()
    with torch.no_grad():
        layer.filled_logit.fill_(-4.0)
        for whole, slots in PLACES.items():
            for kind, role, (angle, x, y) in slots:
                layer.weight[kind, whole, role] = SPACE.inverse(similarity(angle, x, y, 0.5))
                layer.filled_logit[kind, whole, role] = 3.0
    return layer


def scene(*wholes: tuple[int, Tensor], noise: float = 0.01) -> Instances:
    """The parts of these wholes, one sample, in a random order with one part that belongs to nothing."""
    kind, pose = [1], [similarity(0.3, 5.0, 5.0, 0.3)]
    for whole, where in wholes:
        for part, _, (angle, x, y) in PLACES[whole]:
            kind.append(part)
            pose.append(SPACE.move(similarity(angle, x, y, 0.5), where))
    order = torch.randperm(len(kind))
    stacked = torch.stack(pose)[order]
    stacked = stacked + noise * torch.randn_like(stacked)
    return Instances(torch.tensor(kind)[order][None], stacked[None], torch.ones(1, len(kind)).double())


SCENES = {
    "one": [(1, similarity(1.0, 0.2, 0.3))],
    "different": [(0, similarity(2.0, 0.2, 0.3)), (1, similarity(-1.0, 2.0, 0.0, 0.7))],
    "twins": [(1, similarity(0.5, -1.0, 0.0)), (1, similarity(0.5, 1.0, 0.4))],
    "near twins": [(0, similarity(0.5, 0.0, 0.0)), (0, similarity(0.5, 0.4, 0.1))],
    "three": [(0, similarity(0.5, 0, 0)), (1, similarity(0.5, 3, 0)), (0, similarity(3.0, 0, 3, 2.0))],
}


@pytest.mark.parametrize("name", SCENES)
def test_all_wholes_are_found_and_each_part_is_used_once(name: str) -> None:
    torch.manual_seed(0)
    wholes = SCENES[name]
    parts = scene(*wholes)
    found = built().parse(parts, limit=4)
    count = len(wholes)
    activation = found.wholes.activation[0]
    assert (activation > 0.5).tolist() == [True] * count + [False] * (4 - count)
    assert (activation[:-1] >= activation[1:]).all()
    assert sorted(found.wholes.kind[0, :count].tolist()) == sorted(whole for whole, _ in wholes)
    assert found.coupling.shape == (1, parts.kind.shape[1], 4)
    assert int((found.parent == -1).sum()) == 1  # the part that belongs to nothing
    torch.testing.assert_close(found.coupling.argmax(-1)[found.parent >= 0], found.parent[found.parent >= 0])
    assert found.coupling.sum(-1).tolist() == (found.parent >= 0).double().tolist()
    for number in range(count):
        errors = [
            float((found.wholes.pose[0, number] - pose).norm())
            for whole, pose in wholes
            if whole == found.wholes.kind[0, number]
        ]
        assert min(errors) < 0.1
        kinds = sorted(parts.kind[0, found.parent[0] == number].tolist())
        assert kinds == [kind for kind, *_ in PLACES[int(found.wholes.kind[0, number])]]


@pytest.mark.parametrize("filled", [0.3, 0.7])
def test_a_child_that_few_wholes_have_is_not_a_part(filled: float) -> None:
    """A slot that fewer than half of the wholes fill may confirm a whole, and its child stays free.

    A detector that reads a second, faint part into some houses teaches such a slot.
    """
    torch.manual_seed(0)
    layer, place = built(), similarity(0.0, 0.0, 0.3, 0.5)
    kind, role = next(  # a slot that whole 0 does not have
        (kind, role)
        for kind in range(3)
        for role in range(2)
        if (kind, role) not in [slot[:2] for slot in PLACES[0]]
    )
    with torch.no_grad():
        layer.weight[kind, 0, role] = SPACE.inverse(place)
        layer.filled_logit[kind, 0, role] = math.log(filled / (1 - filled))
    where = similarity(0.4, 0.2, 0.3)
    parts = scene((0, where))
    faint = Instances(torch.tensor([[kind]]), SPACE.move(place, where)[None, None], torch.full((1, 1), 0.3))
    both = Instances(*(torch.cat([one, two.to(one)], 1) for one, two in zip(parts, faint)))
    found = layer.parse(both, limit=2)
    assert found.wholes.kind[0, 0] == 0
    assert int(found.parent[0, -1]) == (0 if filled > 0.5 else -1)
    assert int((found.parent == 0).sum()) == (3 if filled > 0.5 else 2)
    assert layer(both).logits[0, 0] > layer(parts).logits[0, 0]


def test_parsed_poses_move_with_the_viewpoint() -> None:
    torch.manual_seed(0)
    parts, layer = scene(*SCENES["three"]), built()
    transform = SPACE.random_transform()
    before = layer.parse(parts, limit=3)
    after = layer.parse(parts._replace(pose=SPACE.move(parts.pose, transform)), limit=3)
    assert torch.equal(after.parent, before.parent)
    torch.testing.assert_close(after.wholes.activation, before.wholes.activation)
    torch.testing.assert_close(after.wholes.pose, SPACE.move(before.wholes.pose, transform))


def test_a_whole_by_accident_does_not_break_up_two_true_ones() -> None:
    """Parts of two wholes agree exactly on a third; only the reading as two wholes explains all four."""
    torch.manual_seed(0)
    true = similarity(0.0, 0, -0.5), similarity(0.3, 0, 0.6)
    decoy = similarity(1.0, -0.5, 0), similarity(2.0, 0.7, 0.2)
    layer = ConstellationCaps(2, 2, roles=1, sigma=0.1, min_sigma=0.02).double()
    with torch.no_grad():
        layer.weight.copy_(
            SPACE.inverse(torch.stack([torch.stack(true), torch.stack(decoy)], 1).unsqueeze(2))
        )
    # The first whole is at the identity, its part 0 is also that of the decoy, which gives the second whole.
    second = SPACE.move(
        SPACE.inverse(true[1]), SPACE.move(decoy[1], SPACE.move(SPACE.inverse(decoy[0]), true[0]))
    )
    parts = [true[0], true[1] + 0.08, SPACE.move(true[0], second) + 0.08, SPACE.move(true[1], second)]
    children = Instances(torch.tensor([[0, 1, 0, 1]]), torch.stack(parts)[None], torch.ones(1, 4).double())
    greedy, searched = layer.parse(children, 3, starts=1), layer.parse(children, 3)
    assert greedy.wholes.kind[0, 0] == 1
    assert greedy.parent.tolist() == [[0, -1, -1, 0]]
    assert searched.wholes.kind[0, :2].tolist() == [0, 0]
    assert searched.parent[0, 0] == searched.parent[0, 1] != searched.parent[0, 2] == searched.parent[0, 3]


def test_the_pose_of_a_whole_is_the_least_squares_fit_of_its_parts() -> None:
    """Against numpy's solver, with errors that are equal in units of the whole."""
    torch.manual_seed(0)
    layer = built()
    layer.log_sigma.data += 0.5 * torch.randn_like(layer.log_sigma)
    parts = scene(SCENES["one"][0], noise=0.02)
    found = layer.parse(parts, 1)
    rows, values = [], []
    for kind, pose, parent in zip(parts.kind[0], parts.pose[0], found.parent[0]):
        if parent == 0:
            # Both wheels are nearer to their own role than to the other.
            slots = [SPACE.inverse(layer.weight[kind, 1, role].detach()) for role in range(2)]
            expected = [SPACE.move(slot, SCENES["one"][0][1]) for slot in slots]
            role = int((expected[0] - pose).norm() > (expected[1] - pose).norm())
            (a, b, x, y), precision = slots[role].tolist(), 1 / layer.log_sigma[kind, 1, role].exp().item()
            precision /= math.hypot(a, b)
            lines = [[a, -b, 0, 0], [b, a, 0, 0], [x, -y, 1, 0], [y, x, 0, 1]]
            rows += [[precision * number for number in line] for line in lines]
            values += [precision * number for number in pose.tolist()]
    assert len(rows) == 12
    solution = torch.linalg.lstsq(torch.tensor(rows), torch.tensor(values)).solution.double()
    torch.testing.assert_close(found.wholes.pose[0, 0], solution, atol=1e-4, rtol=1e-4)


def test_examples_are_recognized() -> None:
    """A layer that was shown one example of each type names others, at other viewpoints."""
    torch.manual_seed(0)
    layer = ConstellationCaps(3, 2).double()
    shown = [scene((whole, similarity(0.1, 0.2, 0.3)), noise=0.0) for whole in range(2)]
    width = max(each.kind.shape[1] for each in shown)
    padded = [
        Instances(
            torch.nn.functional.pad(kind, (0, width - kind.shape[1])),
            torch.nn.functional.pad(pose, (0, 0, 0, width - kind.shape[1])),
            torch.nn.functional.pad(activation, (0, width - kind.shape[1])),
        )
        for kind, pose, activation in shown
    ]
    layer.set_examples(Instances(*(torch.cat(each) for each in zip(*padded))))
    for whole in range(2):
        logits = layer(scene((whole, similarity(2.5, -0.4, 0.1, 0.6)))).logits
        assert int(logits.argmax()) == whole
    with pytest.raises(ValueError, match="one sample for each of 2 types, got 1"):
        layer.set_examples(padded[0])


def test_parsing_uses_wholes_as_parts_of_groups() -> None:
    torch.manual_seed(0)
    found = built().parse(scene(*SCENES["different"]), limit=4)
    groups = ConstellationCaps(2, 3).double().parse(found.wholes, limit=2, threshold=-100)
    assert groups.wholes.pose.shape == (1, 2, 4)
    assert (groups.parent[found.wholes.activation == 0] == -1).all()
