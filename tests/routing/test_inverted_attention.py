import numpy as np
import pytest
import torch

from support.layers import children
from support.references import conv_votes
from torchcaps import Capsules, ConvCaps, DenseCaps, create_routing
from torchcaps.routing import InvertedAttentionRouting
from torchcaps.votes import SharedVotes

double = torch.float64


def layer_norm(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * scale + shift


def reference(
    votes: dict, scale: np.ndarray, shift: np.ndarray, iterations: int
) -> tuple[dict[tuple, np.ndarray], dict[tuple, float]]:
    """The formulas of the paper in loops, with competition among all parents of a child."""
    parents_of: dict = {}
    for parent, field in votes.items():
        for child in field:
            parents_of.setdefault(child, []).append(parent)
    r = {(i, j): 1 / len(parents) for i, parents in parents_of.items() for j in parents}
    pose: dict = {}
    for iteration in range(iterations):
        if iteration:
            for i, parents in parents_of.items():
                o = np.array([votes[j][i] @ pose[j] / np.sqrt(len(scale)) for j in parents])
                share = np.exp(o - o.max()) / np.exp(o - o.max()).sum()
                r.update({(i, j): s for j, s in zip(parents, share)})
        pose = {
            j: layer_norm(sum(r[i, j] * v for i, v in field.items()), scale, shift)
            for j, field in votes.items()
        }
    return pose, r


@pytest.mark.parametrize("iterations", [1, 2, 4])
def test_equals_the_formulas_on_a_grid(iterations: int) -> None:
    torch.manual_seed(0)
    layer = ConvCaps(
        2, 3, kernel_size=3, stride=2, padding=1, routing="inverted_attention", iterations=iterations
    ).double()
    norm, score = layer.routing.norm, layer.routing.score
    with torch.no_grad():
        norm.weight.normal_()
        norm.bias.normal_()
    capsules = children((4, 5, 2, 16), batch=1, dtype=double)
    routed = layer(capsules, coupling=True)
    votes = conv_votes(capsules.pose[0].numpy(), layer.weight.detach().numpy(), 3, 2, 1)
    wanted, share = reference(votes, norm.weight.detach().numpy(), norm.bias.detach().numpy(), iterations)
    for (y, x, j), pose in wanted.items():
        np.testing.assert_allclose(routed.pose[0, y, x, j].detach().numpy(), pose, atol=1e-9)
        logit = score.weight.detach().numpy()[0] @ pose + float(score.bias.detach())
        assert float(routed.logits[0, y, x, j].detach()) == pytest.approx(logit, abs=1e-9)
    # Child (1, 1, 0) is in four fields; in that of parent (0, 0) it is at row 2, column 2.
    assert float(routed.coupling[0, 0, 0, 8 * 2, 1].detach()) == pytest.approx(
        share[(1, 1, 0), (0, 0, 1)], abs=1e-12
    )
    torch.testing.assert_close(routed.activation, torch.sigmoid(routed.logits))


def test_child_activations_are_not_used() -> None:
    layer = DenseCaps(6, 8, 3, 4, routing="inverted_attention")
    pose = torch.randn(2, 6, 8)
    active, dead = (layer(Capsules(pose, torch.full((2, 6), a))) for a in (1.0, 0.0))
    assert torch.equal(active.pose, dead.pose)
    assert torch.equal(active.logits, dead.logits)


def test_all_parents_share_one_norm_and_one_map_to_the_logit() -> None:
    layer = DenseCaps(6, 8, 3, 4, routing="inverted_attention")
    shapes = {name: tuple(values.shape) for name, values in layer.routing.named_parameters()}
    assert shapes == {"norm.weight": (4,), "norm.bias": (4,), "score.weight": (1, 4), "score.bias": (1,)}


def test_a_routing_without_a_size_fits_any_layer_and_tells_agreement() -> None:
    routing = InvertedAttentionRouting(iterations=1)
    assert not list(routing.parameters())
    pose = torch.randn(1, 1, 8, dtype=double).expand(1, 5, 8).clone()
    pose[:, 2:] *= torch.tensor([1.0, -1.0, 1.0], dtype=double)[:, None]
    for size in (4, 7):
        weight = torch.randn(2, 8, size, dtype=double)
        agreed = routing(SharedVotes(pose[:, :2], weight), torch.ones(1, 2, dtype=double))
        opposed = routing(SharedVotes(pose[:, 2:4], weight), torch.ones(1, 2, dtype=double))
        assert (agreed.logits > opposed.logits + 1e-3).all()
        torch.testing.assert_close(opposed.logits, torch.zeros_like(opposed.logits))


def test_a_step_from_the_first_parents_is_the_second_iteration() -> None:
    layer = ConvCaps(2, 3, kernel_size=2, routing="inverted_attention", iterations=3)
    capsules = children((3, 3, 2, 16))
    votes, activation = layer.votes(capsules), capsules.activation.flatten(1)
    first, second, third = layer.routing.history(votes, activation)
    for before, after in ((first, second), (second, third)):
        for ours, wanted in zip(layer.routing.step(votes, activation, before.pose), after):
            assert torch.equal(ours, wanted)


def test_wrong_sizes_are_named() -> None:
    votes, ones = SharedVotes(torch.ones(2, 5, 4), torch.ones(3, 4, 4)), torch.ones(2, 5)
    with pytest.raises(ValueError, match="pose_dim=8, the layer has pose_dim=4"):
        InvertedAttentionRouting(pose_dim=8)(votes, ones)
    with pytest.raises(ValueError, match=r"parents must be \[B=2, P=1, J=3, D=4\], got \[2, 3, 4\]"):
        InvertedAttentionRouting().step(votes, ones, torch.ones(2, 3, 4))
    with pytest.raises(ValueError, match="pose_dim must be a whole number"):
        create_routing("inverted_attention", pose_dim=0)
