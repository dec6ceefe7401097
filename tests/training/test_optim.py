import pytest
import torch
from torch import nn

from torchcaps.training.optim import EMA, lr_factor, make_optimizer
from torchcaps.training.recipe import OptimizerPart, SchedulePart


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_the_optimizer_has_the_numbers_of_the_recipe(name: str) -> None:
    part = OptimizerPart(name, lr=0.1, weight_decay=0.2, momentum=0.3)
    optimizer = make_optimizer(part, [nn.Parameter(torch.ones(1))])
    assert type(optimizer).__name__.lower() == name
    assert (optimizer.defaults["lr"], optimizer.defaults["weight_decay"]) == (0.1, 0.2)
    assert optimizer.defaults.get("momentum", 0.3) == 0.3


def test_the_average_follows_its_formula() -> None:
    layer = nn.Linear(2, 2)
    average = EMA(layer, 0.9)
    expected = [parameter.detach().double().clone() for parameter in layer.parameters()]
    for step in range(1, 200):
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.copy_(torch.randn_like(parameter))
        average.update(step)
        decay = min(0.9, (1 + step) / (10 + step))
        for mean, parameter in zip(expected, layer.parameters()):
            mean.mul_(decay).add_((1 - decay) * parameter.detach().double())
    current = [parameter.detach().clone() for parameter in layer.parameters()]
    with average.applied():
        for parameter, mean in zip(layer.parameters(), expected):
            torch.testing.assert_close(parameter.detach().double(), mean, rtol=1e-5, atol=1e-6)
    assert all(torch.equal(now, before) for now, before in zip(layer.parameters(), current))


def test_an_average_can_start_in_a_run_that_had_none() -> None:
    layer = nn.Linear(1, 1)
    average = EMA(layer, 0.9)
    with torch.no_grad():
        layer.weight.add_(1)
    average.load({})
    with average.applied():
        after = layer.weight.item()
    assert after == layer.weight.item()


@pytest.mark.parametrize("name", ["constant", "exponential", "cosine"])
def test_every_schedule_begins_with_the_warmup(name: str) -> None:
    schedule = SchedulePart(name, warmup_steps=4)
    assert [lr_factor(schedule, step, 100) for step in range(4)] == [0.25, 0.5, 0.75, 1.0]
    assert lr_factor(schedule, 4, 100) == 1.0
