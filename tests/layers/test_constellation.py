import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from support.layers import FEW
from torchcaps import ConstellationCaps, Instances
from torchcaps.poses.similarity import SimilarityPose

SPACE = SimilarityPose()


def small(kinds: int = 2, wholes: int = 3, roles: int = 2, children: int = 4, batch: int = 2) -> Any:
    """A layer with random parameters, and children for it, in float64."""
    layer = ConstellationCaps(kinds, wholes, roles).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    kind = torch.randint(kinds, (batch, children))
    activation = 0.1 + 0.8 * torch.rand(batch, children, dtype=torch.float64)
    return layer, Instances(kind, torch.randn(batch, children, 4, dtype=torch.float64), activation)


@torch.no_grad()
def naive_fits(
    layer: ConstellationCaps, parts: Instances, b: int, j: int, i: int, r: int
) -> dict[tuple[int, int], float]:
    """The fit of every child in every role for the proposal of child i in role r, in loops over numbers."""
    kind, activation = parts.kind[b].tolist(), parts.activation[b].tolist()
    matrix = [SPACE.matrix3(pose) for pose in parts.pose[b]]
    relation = SPACE.matrix3(layer.weight)
    variance = layer.log_sigma.exp().clamp(min=layer.min_sigma).square()
    fits = {}
    for k, t in enumerate(kind):
        for s in range(layer.roles):
            expected = relation[kind[i], j, r] @ torch.linalg.inv(relation[t, j, s])
            apart = torch.linalg.inv(matrix[i]) @ matrix[k] - expected
            square = float(expected[:2, 0].square().sum())
            distance = float(expected[:2, 2].square().sum())
            mine, other = float(variance[kind[i], j, r]), float(variance[t, j, s])
            turn, place = mine + other, mine * (1 + distance) / square + other
            exponent = float(apart[:2, 0].square().sum()) / turn + float(apart[:2, 2].square().sum()) / place
            density = math.exp(-exponent / square / 2) / ((2 * math.pi) ** 2 * turn * place)
            fits[k, s] = 0.0 if k == i else density / math.exp(layer.log_background)
    used = dict(fits)
    for k, t in enumerate(kind):
        for s in range(layer.roles):
            for other in range(layer.roles):
                rivals = [fits[m, other] * activation[m] for m in range(len(kind)) if kind[m] == t]
                first = fits[k, other] * activation[k] == max(rivals)
                if first and fits[k, other] > fits[k, s]:
                    used[k, s] = 0.0
    return used


@torch.no_grad()
def naive_score(layer: ConstellationCaps, parts: Instances, b: int, j: int, i: int, r: int) -> float:
    kind, activation = parts.kind[b].tolist(), parts.activation[b].tolist()
    fits = naive_fits(layer, parts, b, j, i, r)
    score = math.log(activation[i])
    for t in range(layer.kinds):
        for s in range(layer.roles):
            filled = 1 / (1 + math.exp(-float(layer.filled_logit[t, j, s])))
            if (t, s) == (kind[i], r):
                score += math.log(filled)
                continue
            total = sum(activation[k] * fits[k, s] for k in range(len(kind)) if kind[k] == t)
            score += math.log(1 - filled + filled * total)
    return score


@pytest.mark.parametrize(("kinds", "roles", "children"), [(1, 1, 1), (1, 3, 4), (2, 2, 5), (3, 2, 6)])
@FEW
@given(seed=st.integers(0, 1000))
def test_scores_equal_those_of_plain_loops(seed: int, kinds: int, roles: int, children: int) -> None:
    torch.manual_seed(seed)
    layer, parts = small(kinds, 2, roles, children)
    # Children near each other, so that votes fit.
    parts = parts._replace(pose=torch.tensor([1.0, 0, 0, 0]) + 0.2 * parts.pose)
    found = layer(parts)
    assert found.pose.shape == (2, 2, children * roles, 4)
    for b in range(2):
        for j in range(2):
            scores = [naive_score(layer, parts, b, j, i, r) for i in range(children) for r in range(roles)]
            torch.testing.assert_close(found.score[b, j].detach(), torch.tensor(scores).double())
            logit = math.log(sum(math.exp(score) for score in scores))
            assert float(found.logits[b, j].detach()) == pytest.approx(logit)
            vote = SPACE.matrix3(parts.pose[b, -1]) @ SPACE.matrix3(layer.weight[parts.kind[b, -1], j, -1])
            torch.testing.assert_close(SPACE.matrix3(found.pose[b, j, -1]), vote)


@FEW
@given(seed=st.integers(0, 1000))
def test_a_viewpoint_moves_proposals_and_keeps_scores(seed: int) -> None:
    torch.manual_seed(seed)
    layer, parts = small(children=6)
    layer = layer.float()
    parts = Instances(parts.kind, parts.pose.float(), parts.activation.float())
    transform = SPACE.random_transform()
    before, after = layer(parts), layer(parts._replace(pose=SPACE.move(parts.pose, transform)))
    torch.testing.assert_close(after.logits, before.logits, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(after.score, before.score, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(after.pose, SPACE.move(before.pose, transform), atol=1e-4, rtol=1e-4)


def test_gradients() -> None:
    torch.manual_seed(0)
    layer, parts = small(children=3)
    names = list(dict(layer.named_parameters()))

    def scores(pose: Tensor, activation: Tensor, *parameters: Tensor) -> Tensor:
        children = Instances(parts.kind, pose, activation)
        return torch.func.functional_call(layer, dict(zip(names, parameters)), (children,)).logits

    inputs = [parts.pose, parts.activation, *(each.detach() for each in layer.parameters())]
    assert torch.autograd.gradcheck(scores, [each.requires_grad_() for each in inputs], fast_mode=True)


def test_samples_and_the_order_of_children_do_not_matter() -> None:
    torch.manual_seed(0)
    layer, parts = small(children=5, batch=3)
    logits = layer(parts).logits
    torch.testing.assert_close(layer(Instances(*(each[1:2] for each in parts))).logits, logits[1:2])
    order = torch.randperm(5)
    torch.testing.assert_close(layer(Instances(*(each[:, order] for each in parts))).logits, logits)


def test_absent_children_change_nothing() -> None:
    torch.manual_seed(0)
    layer, parts = small(children=5)
    layer.float()
    absent = parts.activation.clone()
    absent[:, 3:] = 0
    some = Instances(*(each[:, :3] if each.dtype == torch.int64 else each[:, :3].float() for each in parts))
    padded = Instances(parts.kind, parts.pose.float(), absent.float())
    torch.testing.assert_close(layer(padded).logits, layer(some).logits, atol=1e-3, rtol=1e-4)
    assert (layer.parse(padded, 3, threshold=-100).parent[:, 3:] == -1).all()


def test_many_children_and_types_are_finite() -> None:
    torch.manual_seed(0)
    layer = ConstellationCaps(3, 8)
    pose = torch.randn(2, 32, 4, requires_grad=True)
    layer(Instances(torch.randint(3, (2, 32)), pose, torch.ones(2, 32))).logits.sum().backward()
    assert pose.grad is not None
    assert pose.grad.isfinite().all()
    zeros = Instances(torch.zeros(2, 4, dtype=torch.int64), torch.zeros(2, 4, 4), torch.zeros(2, 4))
    assert layer(zeros).logits.isfinite().all()


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


def test_a_frame_changes_poses_and_nothing_else() -> None:
    torch.manual_seed(0)
    layer, parts = small(children=5)
    before, parsed = layer(parts), layer.parse(parts, 3, threshold=-100)
    change = torch.stack([SPACE.random_transform() for _ in range(3)])
    layer.set_frames(change)
    after, again = layer(parts), layer.parse(parts, 3, threshold=-100)
    torch.testing.assert_close(after.score, before.score)
    torch.testing.assert_close(after.pose, SPACE.move(change[:, None], before.pose))
    torch.testing.assert_close(after.best, SPACE.move(change, before.best))
    assert torch.equal(again.parent, parsed.parent)
    torch.testing.assert_close(
        again.wholes.pose[:, 0], SPACE.move(change[parsed.wholes.kind[:, 0]], parsed.wholes.pose[:, 0])
    )


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


GOOD = (torch.zeros(2, 3, dtype=torch.int64), torch.ones(2, 3, 4), torch.ones(2, 3))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (torch.ones(2, 3, 4), r"instances must be Instances\(kind, pose, activation\), got Tensor"),
        ((GOOD[0], torch.ones(2, 3, 5), GOOD[2]), r"pose must be \[B, K, D=4\], got \[2, 3, 5\]"),
        ((GOOD[0], GOOD[1], torch.ones(2, 4)), r"activation must be \[B=2, K=3\], got \[2, 4\]"),
        (
            (GOOD[0].float(), *GOOD[1:]),
            r"kind must be int64 \[2, 3\], one number per pose, got torch.float32",
        ),
        ((GOOD[0] + 2, *GOOD[1:]), r"kind must lie in 0..1, got values from 2 to 2"),
        ((GOOD[0] - 1, *GOOD[1:]), r"kind must lie in 0..1, got values from -1 to -1"),
        (tuple(each[:, :0] for each in GOOD), "at least one child"),
    ],
)
def test_wrong_instances_are_named(wrong: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ConstellationCaps(2, 3)(wrong)
    with pytest.raises(ValueError, match=says):
        ConstellationCaps(2, 3).parse(wrong, 2)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kinds": 0}, "kinds"),
        ({"wholes": 0}, "wholes"),
        ({"roles": 1.5}, "roles"),
        ({"sigma": 0.0}, "sigma"),
        ({"min_sigma": -1.0}, "min_sigma"),
        ({"log_background": math.inf}, "log_background"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ConstellationCaps(**{"kinds": 2, "wholes": 3, **options})
    for bad in ({"limit": 0}, {"limit": 1, "starts": 0}, {"limit": 1, "threshold": math.nan}):
        with pytest.raises(ValueError, match=r"limit|starts|threshold"):
            ConstellationCaps(2, 3).parse(Instances(*GOOD), **bad)


@given(st.integers(0, 10**6))
@FEW
def test_searches_that_begin_with_a_rejected_whole_find_nothing_more(seed: int) -> None:
    """All searches, as a traced program does them, against those that are worth it."""
    torch.manual_seed(seed)
    layer, parts = small(children=6)
    layer.log_background = -9.0  # so that some wholes are accepted
    for threshold in (-12.0, 0.0, 2.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("torchcaps.layers.constellation.can_read", lambda values: False)
            every = layer.parse(parts, 3, threshold=threshold)
        torch.testing.assert_close(layer.parse(parts, 3, threshold=threshold), every)
