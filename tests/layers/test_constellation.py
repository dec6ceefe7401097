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
