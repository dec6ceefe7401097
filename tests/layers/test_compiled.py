"""The plain form under `torch.compile`: the same numbers, in one graph, and no vote in memory."""

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._inductor.utils import run_and_get_code

from support.layers import children
from torchcaps import Capsules, ClassCaps, ConvCaps, DenseCaps, SharedCaps, create_model, kernels
from torchcaps._compiling import INLINE_VOTES
from torchcaps.layers import CapsuleLayer

# A layer, and the shape of its children.
LAYERS: dict[str, tuple[Callable[[], CapsuleLayer], tuple[int, ...]]] = {
    "em class": (lambda: ClassCaps(3, 5, iterations=2), (3, 4, 3, 16)),
    "em conv": (lambda: ConvCaps(3, 4, kernel_size=3, stride=2, padding=1), (5, 6, 3, 16)),
    "em dense": (lambda: DenseCaps(6, 16, 3, 16, pose="matrix"), (6, 16)),
    "em shared": (lambda: SharedCaps(16, 3, 16, pose="matrix"), (6, 16)),
    "em mixing": (lambda: ClassCaps(3, 5, activation="mixing", covariance="spherical"), (3, 4, 3, 16)),
    "dynamic dense": (lambda: DenseCaps(6, 8, 3, 16), (6, 8)),
    "dynamic conv": (
        lambda: ConvCaps(3, 4, kernel_size=3, routing="dynamic", gradient="last"),
        (5, 5, 3, 16),
    ),
    "kmeans conv": (lambda: ConvCaps(3, 4, kernel_size=3, stride=2, routing="kmeans"), (5, 5, 3, 16)),
    "uniform conv": (lambda: ConvCaps(3, 4, kernel_size=3, routing="uniform"), (5, 5, 3, 16)),
}

every_layer = pytest.mark.parametrize("name", LAYERS)
FEW = ("em class", "dynamic dense")


def outcome(layer: Callable[[Capsules], Capsules], capsules: Capsules, weights: nn.Module) -> list[Tensor]:
    """Parents, and the gradients of something that looks at every number of them."""
    leaves = Capsules(*(values.detach().clone().requires_grad_() for values in capsules))
    parents = layer(leaves)
    loss = (parents.pose.sin() * torch.arange(1, parents.pose.shape[-1] + 1)).sum() + parents.activation.sum()
    gradients = torch.autograd.grad(loss, [*leaves, *weights.parameters()], allow_unused=True)
    return [values.detach() for values in (*parents, *gradients) if values is not None]


def check(name: str, **options: Any) -> None:
    """Compile a layer whole, and hold it to what it gives as it stands."""
    make, shape = LAYERS[name]
    torch.manual_seed(0)
    layer, capsules = make(), children(shape)
    torch._dynamo.reset()
    with kernels.disabled():
        found = outcome(torch.compile(layer, fullgraph=True, **options), capsules, layer)
        wanted = outcome(layer, capsules, layer)
    assert len(found) == len(wanted)
    for ours, plain in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, plain, atol=1e-4 * float(plain.abs().max()), rtol=1e-3)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FEW else pytest.mark.slow) for name in LAYERS]
)
def test_the_form_for_compilers_gives_the_same_values_and_gradients(name: str) -> None:
    check(name, backend="aot_eager")


@pytest.mark.slow
@every_layer
def test_compiled_layers_give_the_same_values_and_gradients(name: str) -> None:
    check(name, options=INLINE_VOTES)


@pytest.mark.slow
def test_compiled_code_allocates_no_votes() -> None:
    layer, capsules = ConvCaps(8, 16, kernel_size=3, stride=2), children((7, 7, 8, 16))
    torch._dynamo.reset()
    with kernels.disabled():
        whole = torch.compile(layer, options=INLINE_VOTES, fullgraph=True)
        _, sources = run_and_get_code(lambda: outcome(whole, capsules, layer))
    shapes = [shape for source in sources for shape in re.findall(r"empty_strided_cpu\(\(([^()]*)\)", source)]
    assert len(sources) == 2, "one piece of code for each direction"
    sizes = [math.prod(int(size) for size in shape.split(",") if size.strip()) for shape in shapes]
    assert max(sizes) < len(capsules.pose) * 9 * 72 * 16 * 16 / 4


@pytest.mark.slow
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", ["matrix_capsnet_small", "capsnet_small"])
def test_compiled_networks_train_without_compiling_again(name: str, fused: bool) -> None:
    torch._dynamo.reset()
    side = 20 if name == "matrix_capsnet_small" else 28
    torch.manual_seed(0)
    model = create_model(name, image_size=side)
    images = torch.rand(2, 1, side, side)
    with kernels.disabled() if not fused else torch.enable_grad():
        wanted = model(images).scores
        model.compile(options=INLINE_VOTES)
        torch.testing.assert_close(model(images).scores, wanted, atol=1e-4, rtol=1e-3)
        with torch._dynamo.config.patch(error_on_recompile=True):
            for _ in range(2):
                model(images).scores.sum().backward()
    assert all(weight.grad is None or weight.grad.isfinite().all() for weight in model.parameters())
