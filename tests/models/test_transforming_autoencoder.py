import pytest
import torch

from torchcaps.capsules import Capsules
from torchcaps.models.transforming_autoencoder import TransformingAutoencoder

STILL = {"shift": torch.zeros(1, 2), "affine": torch.eye(3)[None]}


def build(pose: str = "shift", **options: int) -> TransformingAutoencoder:
    return TransformingAutoencoder(
        (2, 7, 5), **{"capsules": 4, "recognition": 3, "generation": 6, **options}, pose=pose
    )


def turn(angle: float) -> torch.Tensor:
    cosine, sine = torch.tensor(angle).cos(), torch.tensor(angle).sin()
    return torch.stack([cosine, -sine, torch.tensor(0.5), sine, cosine, torch.tensor(0.1)]).view(2, 3)


def affine(angle: float) -> torch.Tensor:
    return torch.cat([turn(angle), torch.tensor([[0.0, 0.0, 1.0]])])[None]


def test_weights_are_those_of_the_paper() -> None:
    # 30 capsules, 10 recognition and 20 generation units on 28×28, presence and (x, y)
    each = 10 * (784 + 1) + (10 + 1) + (2 * 10 + 2) + (20 * 2 + 20) + 20 * 784
    network = TransformingAutoencoder((1, 28, 28))
    assert sum(parameter.numel() for parameter in network.parameters()) == 30 * each


@pytest.mark.parametrize("pose", STILL)
def test_two_moves_after_each_other_are_one(pose: str) -> None:
    network = build(pose)
    capsules = network.look(torch.rand(1, 2, 7, 5))
    if pose == "shift":
        first, second = torch.tensor([[1.0, -2.0]]), torch.tensor([[0.5, 3.0]])
        both = first + second
    else:
        first, second = affine(0.3), affine(-0.7)
        both = second @ first
    torch.testing.assert_close(
        network.move(network.move(capsules, first), second).pose, network.move(capsules, both).pose
    )


@pytest.mark.parametrize("pose", STILL)
def test_no_move_changes_nothing(pose: str) -> None:
    network = build(pose)
    capsules = network.look(torch.rand(1, 2, 7, 5))
    torch.testing.assert_close(network.move(capsules, STILL[pose]).pose, capsules.pose)


def test_an_absent_capsule_draws_nothing_and_the_others_add_up() -> None:
    network = build()
    pose, present = torch.randn(1, 4, 2), torch.rand(1, 4)
    alone = [
        network.redraw(Capsules(pose, present * torch.nn.functional.one_hot(torch.tensor(k), 4)))
        for k in range(4)
    ]
    torch.testing.assert_close(sum(alone), network.redraw(Capsules(pose, present)))
    assert not network.redraw(Capsules(pose, torch.zeros(1, 4))).any()


def test_the_drawing_knows_nothing_of_the_image_but_the_capsules() -> None:
    network = build()
    images, change = torch.rand(3, 2, 7, 5), torch.randn(3, 2)
    moved = network(images, change)
    again = network.redraw(network.move(moved.capsules, change))
    torch.testing.assert_close(moved.images, again)


def test_samples_do_not_see_each_other_and_gradients_reach_all_weights() -> None:
    for pose, still in STILL.items():
        network = build(pose)
        images, change = torch.rand(3, 2, 7, 5), still.expand(3, *still.shape[1:])
        whole = network(images, change).images
        torch.testing.assert_close(network(images[1:2], change[1:2]).images, whole[1:2])
        whole.square().sum().backward()
        for name, parameter in network.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: build("turn"), "unknown pose 'turn'"),
        (lambda: build(capsules=0), "capsules must be a whole number"),
        (lambda: build()(torch.rand(1, 1, 7, 5), torch.zeros(1, 2)), r"images must be \[B, C=2, H=7, W=5\]"),
        (lambda: build()(torch.rand(1, 2, 7, 5), torch.zeros(1, 3)), r"change must be \[B, D=2\]"),
        (
            lambda: build("affine")(torch.rand(1, 2, 7, 5), torch.zeros(1, 2)),
            r"change must be \[B, R=3, S=3\]",
        ),
    ],
)
def test_says_what_was_wrong(call: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()  # type: ignore[operator]
