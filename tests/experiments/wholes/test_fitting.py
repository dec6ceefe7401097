import torch
from torch import nn

from torchcaps.experiments.wholes.fitting import Examples, fit, outputs


def line(count: int, slope: float = 2.0, seed: int = 0) -> Examples:
    x = torch.randn(count, 1, generator=torch.Generator().manual_seed(seed))
    return Examples((x,), slope * x)


def settle(train: Examples, validation: Examples, **options) -> tuple[nn.Linear, dict]:
    torch.manual_seed(0)
    model = nn.Linear(1, 1)
    facts = fit(model, train, validation, loss=nn.functional.mse_loss, **options)
    return model, facts


def test_chooses_the_rate_that_is_better_on_validation_data() -> None:
    _, facts = settle(line(100), line(50, seed=1), steps=60, rates=(1e-6, 0.1))
    assert facts["rate"] == 0.1


def test_keeps_the_state_before_validation_gets_worse() -> None:
    """Training moves away from what validation asks for: the first check is the best."""
    model, facts = settle(
        line(100, slope=5.0), line(50, slope=0.0, seed=1), steps=60, checks=6, rates=(0.05,)
    )
    assert facts["step"] == 10
    validation = line(50, slope=0.0, seed=1)
    error = nn.functional.mse_loss(outputs(model, validation.inputs), validation.target)
    assert float(error) == facts["loss"]


def test_same_seed_gives_the_same_bits() -> None:
    first, second = (settle(line(30), line(10, seed=1), steps=20)[0] for _ in range(2))
    assert torch.equal(first.weight, second.weight)
