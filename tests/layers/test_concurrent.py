from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from support.layers import children
from torchcaps import Capsules, ClassCaps, ConvCaps, DenseCaps
from torchcaps.layers import CapsuleLayer, ConcurrentCaps
from torchcaps.models.base import capsule_inputs

ONCE: dict[str, Any] = {"routing": "inverted_attention", "iterations": 1}


def grid_stack() -> list[CapsuleLayer]:
    torch.manual_seed(0)
    return [
        ConvCaps(2, 3, kernel_size=3, stride=2, in_dim=4, **ONCE),
        ConvCaps(3, 2, kernel_size=2, in_dim=4, **ONCE),
        ClassCaps(2, 4, in_dim=4, **ONCE),
    ]


def test_one_pass_is_a_sequential_with_one_iteration() -> None:
    layers, capsules = grid_stack(), children((7, 7, 2, 4))
    ours = ConcurrentCaps(layers, 1)(capsules, coupling=True)
    for found, wanted in zip(ours, layers[-1](nn.Sequential(*layers[:-1])(capsules), coupling=True)):
        assert torch.equal(found, wanted)


def test_one_layer_is_the_sequential_form() -> None:
    layer = DenseCaps(6, 8, 3, 4, routing="inverted_attention", iterations=3)
    pose = torch.randn(2, 6, 8)
    wanted = layer.history(pose)
    layer.routing.iterations = 1
    for (ours,), theirs in zip(ConcurrentCaps([layer], 3).history(pose), wanted, strict=True):
        for found, expected in zip(ours, theirs):
            assert torch.equal(found, expected)


def test_passes_equal_the_formulas() -> None:
    """Three dense layers of vectors, in numpy: all of them from the poses of the pass before."""
    torch.manual_seed(0)
    layers = [DenseCaps(5, 3, 4, 6, **ONCE), DenseCaps(4, 6, 3, 5, **ONCE), DenseCaps(3, 5, 2, 4, **ONCE)]
    layers = [layer.double() for layer in layers]
    capsules = children((5, 3), batch=1, dtype=torch.float64)

    def update(layer: DenseCaps, below: np.ndarray, parents: np.ndarray | None) -> np.ndarray:
        v = np.einsum("id,ijde->ije", below, layer.weight.detach().numpy())
        o = np.zeros(v.shape[:2]) if parents is None else (v * parents).sum(-1) / np.sqrt(v.shape[-1])
        r = np.exp(o) / np.exp(o).sum(1, keepdims=True)
        s = (r[..., None] * v).sum(0)
        return (s - s.mean(1, keepdims=True)) / np.sqrt(s.var(1, keepdims=True) + 1e-5)

    poses = [capsules.pose[0].numpy()]
    for layer in layers:
        poses.append(update(layer, poses[-1], None))
    history = ConcurrentCaps(layers, 4).history(capsules)
    assert len(history) == 4
    for number, routed in enumerate(history):
        if number:
            poses = poses[:1] + list(map(update, layers, poses[:-1], poses[1:]))
        for ours, wanted in zip(routed, poses[1:], strict=True):
            np.testing.assert_allclose(ours.pose[0].detach().numpy(), wanted, atol=1e-9)


def test_later_passes_differ_from_the_sequential_form() -> None:
    layers, capsules = grid_stack(), children((7, 7, 2, 4))
    concurrent = ConcurrentCaps(layers, 2)(capsules)
    for layer in layers:
        layer.routing.iterations = 2
    assert not torch.allclose(concurrent.pose, nn.Sequential(*layers)(capsules).pose, atol=1e-3)


def test_gradients_are_right_and_samples_independent() -> None:
    stack, capsules = ConcurrentCaps(grid_stack(), 3).double(), children((5, 5, 2, 4), dtype=torch.float64)
    pose = capsules.pose.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda pose: stack(Capsules(pose, capsules.activation))[:3], (pose,), fast_mode=True
    )
    alone = stack(Capsules(pose[:1], capsules.activation[:1]))
    torch.testing.assert_close(alone.pose, stack(capsules).pose[:1])
    assert stack(capsules).coupling is None


def test_takes_vectors_and_runs_under_autocast() -> None:
    stack = ConcurrentCaps([DenseCaps(6, 8, 3, 4, **ONCE), DenseCaps(3, 4, 2, 5, **ONCE)])
    pose = torch.randn(2, 6, 8)
    with torch.autocast("cpu", torch.bfloat16):
        low = stack(pose)
    assert low.pose.dtype == torch.float32
    torch.testing.assert_close(low.pose, stack(pose).pose, atol=0.1, rtol=0.1)


def test_hooks_see_the_first_pass() -> None:
    stack = ConcurrentCaps(grid_stack(), 3)
    _, inputs = capsule_inputs(stack, children((7, 7, 2, 4)))
    assert [name for name, _, _ in inputs] == ["layers.0", "layers.1", "layers.2"]


@pytest.mark.parametrize(
    ("layers", "iterations", "says"),
    [
        ([], 2, "layers must have at least one"),
        ([nn.Identity()], 2, r"layers\[0\] must be a capsule layer, got Identity"),
        ([DenseCaps(2, 3, 4, 5)], 2, r"layers\[0\] must have routing='inverted_attention'.*DynamicRouting"),
        ([DenseCaps(2, 3, 4, 5, routing="inverted_attention")], 2, "with iterations=1, got .*iterations=2"),
        ([DenseCaps(2, 3, 4, 5, **ONCE)], 0, "iterations must be a whole number of at least 1"),
    ],
)
def test_wrong_input_is_named(layers: list, iterations: int, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ConcurrentCaps(layers, iterations)
