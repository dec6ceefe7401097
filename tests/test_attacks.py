"""Attacks against closed forms, their limits, and networks so confident that float32 gradients underflow."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torchcaps.attacks import bim, fgsm, gradient_size, input_gradient, pgd, zero_gradient_share
from torchcaps.models import Model, Output, create_model
from torchcaps.models.base import softmax_output

ATTACKS = {
    "fgsm": fgsm,
    "bim": partial(bim, steps=4),
    "pgd": partial(pgd, steps=4, restarts=2),
}


class Linear(Model):
    """Logits that are a linear function of the pixels, times a scale that makes them confident."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(num_classes=3, in_channels=1, image_size=4)
        self.scale = scale
        self.layer = nn.Linear(16, 3)
        self.dropout = nn.Dropout(0.5)

    def forward(self, images: Tensor, target: Tensor | None = None) -> Output:
        return softmax_output(self.scale * self.dropout(self.layer(images.flatten(1))))


@pytest.fixture
def linear() -> Linear:
    torch.manual_seed(0)
    return Linear()


def sign_for_two_classes(model: Linear) -> Tensor:
    """The sign of the gradient, once the third class is made impossible: that of a difference of two rows."""
    with torch.no_grad():
        model.layer.bias[2] = -1e4
    return (model.layer.weight[1] - model.layer.weight[0]).sign().reshape(1, 4, 4)


def test_fgsm_of_a_linear_model_is_its_closed_form(linear: Linear) -> None:
    sign = sign_for_two_classes(linear)
    images = torch.full((5, 1, 4, 4), 0.5)
    labels = torch.zeros(5, dtype=torch.int64)
    torch.testing.assert_close(fgsm(linear, images, labels, 0.1), images + 0.1 * sign)
    torch.testing.assert_close(fgsm(linear, images, labels, 0.1, targeted=True), images - 0.1 * sign)
    assert linear.training, "the model is left in the mode it was in"


def test_iterated_attacks_reach_the_same_corner_of_a_linear_model(linear: Linear) -> None:
    sign = sign_for_two_classes(linear)
    images, labels = torch.full((2, 1, 4, 4), 0.5), torch.zeros(2, dtype=torch.int64)
    for attack in (ATTACKS["bim"], ATTACKS["pgd"]):
        torch.testing.assert_close(attack(linear, images, labels, 0.1), images + 0.1 * sign)


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("pooled_cnn", {"stages": ((8,), (16,))}),
        ("shared_capsnet", {"stages": ((8,), (16,))}),
        ("capsnet_small", {"channels": 8, "types": 2}),
        ("matrix_capsnet_small", {"channels": 8, "types": (2, 2, 2)}),
    ],
)
def test_changes_stay_within_epsilon_and_bounds(name: str, model: str, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    network = create_model(model, image_size=20, **options)
    images, labels = torch.rand(3, 1, 20, 20), torch.tensor([1, 0, 9])
    changed = ATTACKS[name](network, images, labels, 0.2)
    assert (changed - images).abs().max() <= 0.2 + 1e-6
    assert changed.min() >= 0
    assert changed.max() <= 1
    assert not changed.requires_grad
    assert all(weight.grad is None for weight in network.parameters())


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_move_the_loss_in_the_right_direction(name: str) -> None:
    torch.manual_seed(0)
    model = create_model("shared_capsnet", image_size=12, stages=((8,), (16,))).eval()
    images, labels = torch.rand(4, 1, 12, 12), torch.tensor([1, 0, 9, 4])

    def probability(images: Tensor) -> Tensor:
        with torch.no_grad():
            return torch.softmax(model(images).logits, 1)[torch.arange(4), labels]

    before = probability(images)
    assert (probability(ATTACKS[name](model, images, labels, 0.05)) < before).all()
    assert (probability(ATTACKS[name](model, images, labels, 0.05, targeted=True)) > before).all()


def test_the_caller_chooses_the_bounds() -> None:
    torch.manual_seed(0)
    images = torch.randn(2, 1, 28, 28)
    changed = fgsm(
        create_model("pooled_cnn"), images, torch.tensor([1, 0]), 0.1, bounds=(-torch.inf, torch.inf)
    )
    assert (changed - images).abs().max() <= 0.1 + 1e-6
    assert changed.min() < -1
    with pytest.raises(ValueError, match="bounds"):
        fgsm(create_model("pooled_cnn"), images, torch.tensor([1, 0]), 0.1, bounds=(1.0, 0.0))


def test_nothing_changes_at_epsilon_zero(linear: Linear) -> None:
    images = torch.rand(2, 1, 4, 4)
    for attack in ATTACKS.values():
        assert torch.equal(attack(linear, images, torch.tensor([1, 0]), 0.0), images)


def test_a_seed_decides_where_pgd_starts(linear: Linear) -> None:
    images, labels = torch.rand(2, 1, 4, 4), torch.tensor([1, 0])

    def once(seed: int) -> Tensor:
        return pgd(
            linear,
            images,
            labels,
            0.1,
            steps=1,
            step_size=0.01,
            generator=torch.Generator().manual_seed(seed),
        )

    assert torch.equal(once(1), once(1))
    assert not torch.equal(once(1), once(2))


def test_more_restarts_never_lower_the_loss(linear: Linear) -> None:
    images, labels = torch.rand(8, 1, 4, 4), torch.arange(8) % 3

    def loss(restarts: int) -> Tensor:
        options = {"steps": 1, "step_size": 0.0, "generator": torch.Generator().manual_seed(0)}
        changed = pgd(linear.eval(), images, labels, 0.1, restarts=restarts, **options)
        return nn.functional.cross_entropy(linear(changed).logits, labels, reduction="none")

    assert (loss(5) >= loss(1)).all()


def test_a_confident_network_still_has_a_gradient() -> None:
    torch.manual_seed(0)
    images, labels = torch.rand(4, 1, 4, 4), torch.zeros(4, dtype=torch.int64)
    confident = Linear(scale=150.0)
    with torch.no_grad():
        confident.layer.bias[0] = 3.0

    plain = images.clone().requires_grad_()
    nn.functional.cross_entropy(confident.eval()(plain).logits, labels).backward()
    assert zero_gradient_share(plain.grad) == 1.0, "cross-entropy alone underflows here"
    assert zero_gradient_share(input_gradient(confident, images, labels)) == 0.0


def test_the_share_of_zero_gradients() -> None:
    gradient = torch.zeros(4, 1, 2, 2)
    gradient[0, 0, 0, 0] = 1e-30
    assert zero_gradient_share(gradient) == 0.75
    assert zero_gradient_share(gradient[:0]) == 0.0


def test_wrong_arguments_are_named(linear: Linear) -> None:
    images, labels = torch.rand(2, 1, 4, 4), torch.tensor([1, 0])
    with pytest.raises(ValueError, match="epsilon"):
        fgsm(linear, images, labels, -0.1)
    with pytest.raises(ValueError, match="steps"):
        bim(linear, images, labels, 0.1, steps=0)
    with pytest.raises(ValueError, match="restarts"):
        pgd(linear, images, labels, 0.1, restarts=0)
    with pytest.raises(ValueError, match="target"):
        fgsm(linear, images, torch.tensor([1, 7]), 0.1)


def test_margin_loss_leads_to_the_strongest_wrong_class(linear: Linear) -> None:
    images, labels = torch.full((1, 1, 4, 4), 0.5), torch.tensor([0])
    with torch.no_grad():
        linear.layer.bias += torch.tensor([0.0, 0.0, 50.0])  # class 2 is the strongest wrong one
    sign = (linear.layer.weight[2] - linear.layer.weight[0]).sign().reshape(1, 4, 4)
    torch.testing.assert_close(fgsm(linear, images, labels, 0.1, loss="margin"), images + 0.1 * sign)
    torch.testing.assert_close(
        fgsm(linear, images, labels, 0.1, loss="margin", targeted=True), images - 0.1 * sign
    )
    with pytest.raises(ValueError, match="loss"):
        fgsm(linear, images, labels, 0.1, loss="hinge")


def test_restarts_keep_the_largest_margin() -> None:
    torch.manual_seed(0)
    model = create_model("pooled_cnn", image_size=12, num_classes=4, stages=((4,), (4,))).eval()
    images, labels = torch.rand(6, 1, 12, 12), torch.tensor([0, 1, 2, 3, 0, 1])

    def lead(restarts: int) -> Tensor:
        generator = torch.Generator().manual_seed(1)
        changed = pgd(
            model, images, labels, 0.2, steps=3, restarts=restarts, loss="margin", generator=generator
        )
        logits = model(changed).logits.detach()
        return (
            logits.scatter(1, labels[:, None], -torch.inf).amax(1) - logits.gather(1, labels[:, None])[:, 0]
        )

    assert (lead(4) >= lead(1) - 1e-6).all()


def test_size_of_the_gradient_is_that_of_autograd() -> None:
    torch.manual_seed(0)
    model = Linear().double().eval()
    images, labels = torch.rand(3, 1, 4, 4, dtype=torch.float64, requires_grad=True), torch.tensor([0, 1, 2])
    nn.functional.cross_entropy(model(images).logits, labels, reduction="sum").backward()
    assert images.grad is not None
    torch.testing.assert_close(gradient_size(model, images, labels), images.grad.abs().mean((1, 2, 3)))


def test_size_of_a_tiny_gradient_does_not_underflow() -> None:
    torch.manual_seed(0)
    model, images = Linear(scale=500).eval(), torch.rand(4, 1, 4, 4)
    labels = model(images).logits.argmax(1)
    size = gradient_size(model, images, labels)
    assert size.min() < 1e-45, "float32 could not hold it"
    assert (size > 0).all()


@pytest.mark.parametrize("name", ATTACKS)
def test_each_image_can_have_its_own_epsilon(name: str) -> None:
    model, epsilon = create_model("pooled_cnn").eval(), [0.0, 0.05, 0.3]
    image, labels = torch.rand(1, 1, 28, 28), torch.tensor([3])
    options = {"generator": torch.Generator().manual_seed(0)} if name == "pgd" else {}
    together = ATTACKS[name](
        model, image.expand(3, -1, -1, -1), labels.expand(3), torch.tensor(epsilon), **options
    )
    change = (together - image).abs().amax((1, 2, 3))
    assert (change <= torch.tensor(epsilon) + 1e-6).all()
    assert (change >= 0.9 * torch.tensor(epsilon)).all()
    if name != "pgd":
        for changed, each in zip(together, epsilon):
            torch.testing.assert_close(changed, ATTACKS[name](model, image, labels, each)[0])


@pytest.mark.parametrize("epsilon", [[0.1], [0.1, -0.1], [0.1, float("nan")]])
def test_an_epsilon_that_does_not_fit_the_images_is_refused(linear: Linear, epsilon: list[float]) -> None:
    with pytest.raises(ValueError, match="epsilon"):
        pgd(linear, torch.rand(2, 1, 4, 4), torch.tensor([0, 1]), torch.tensor(epsilon))
