"""What the networks of single papers promise beyond the sweep over all models."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from torchcaps import Capsules, create_model, squash
from torchcaps.layers import ConcurrentCaps
from torchcaps.models.self_routing_net import VotelessCaps
from torchcaps.models.trunks.plain import with_coordinates
from torchcaps.models.vb_capsnet import NormalizedConvCaps
from torchcaps.testing import assert_batch_independent, assert_child_permutation, assert_couplings_normalized
from torchcaps.votes import DenseVotes

SELF_ROUTING: dict[str, Any] = {"backbone": "conv6", "types": 4, "pose_dim": 4}
INVERTED: dict[str, Any] = {"backbone": "conv5", "types": (2, 3, 2), "pose_dim": 4}


def count(name: str, **options: Any) -> int:
    with torch.device("meta"):
        return sum(each.numel() for each in create_model(name, **options).parameters())


def test_aff_capsnet_is_the_mean_primary_capsule_seen_by_each_class() -> None:
    model = create_model("aff_capsnet_small", channels=8, types=2)
    images = torch.rand(2, 1, 28, 28)
    mean = model.primary(torch.relu(model.conv(images))).pose.flatten(1, 3).mean(1)
    wanted = squash(torch.einsum("bi,jio->bjo", mean, model.classes.weight))
    torch.testing.assert_close(model(images).capsules.pose, wanted)


def test_aff_capsnet_reads_other_sizes_unless_it_draws() -> None:
    larger = torch.rand(2, 1, 40, 36)
    assert create_model("aff_capsnet_small", channels=8)(larger).scores.shape == (2, 10)
    with pytest.raises(ValueError, match=r"images must be .*H=28"):
        create_model("aff_capsnet", channels=8, types=2, decoder=(4,))(larger)
    with pytest.raises(ValueError, match="image_size is too small for aff_capsnet"):
        create_model("aff_capsnet", image_size=16)


def test_heinsen_capsnet_sees_where_a_pixel_is() -> None:
    images = torch.rand(2, 3, 5, 7)
    channels = with_coordinates(images)
    assert torch.equal(channels[:, :3], images)
    rows, columns = channels[1, 3:]
    wanted = torch.tensor([-1.0, 0.0, 1.0])
    torch.testing.assert_close(torch.stack([rows[0, 3], rows[2, 0], rows[4, 6]]), wanted)
    torch.testing.assert_close(torch.stack([columns[3, 0], columns[0, 3], columns[4, 6]]), wanted)


def test_heinsen_capsnet_starts_undecided_and_has_a_bias_per_vote() -> None:
    model = create_model("heinsen_capsnet", image_size=32, channels=4, types=3)
    torch.testing.assert_close(model(torch.rand(2, 1, 32, 32)).logits, torch.zeros(2, 10))
    assert model.parts.routing.bias.shape == (3, 16)
    assert model.classes.routing.bias.shape == (3, 10, 16)
    with pytest.raises(ValueError, match="convolution 6 needs at least 3 pixels, gets 2"):
        create_model("heinsen_capsnet", image_size=28)


def test_scores_of_self_routing_add_up_to_1() -> None:
    model = create_model("self_routing_resnet20", num_classes=4, **SELF_ROUTING)
    torch.nn.init.normal_(model.classes.routing.weight)
    output = model(torch.rand(3, 1, 28, 28))
    torch.testing.assert_close(output.scores.sum(1), torch.ones(3))
    torch.testing.assert_close(output.scores, torch.softmax(output.logits, 1))


def test_voteless_capsules_are_means_of_their_children() -> None:
    layer = VotelessCaps(6, 4, 3)
    torch.nn.init.normal_(layer.routing.weight)
    children = Capsules(torch.randn(2, 6, 4), torch.rand(2, 6))
    routed = layer(children, coupling=True)
    weight = routed.coupling * children.activation.unsqueeze(-1)
    wanted = torch.einsum("bij,bid->bjd", weight / weight.sum(1, keepdim=True), children.pose)
    torch.testing.assert_close(routed.pose, wanted)
    assert_couplings_normalized(layer, children)
    assert_batch_independent(layer, children)
    assert "weight" not in layer.state_dict()
    assert layer.double()(Capsules(*(each.double() for each in children))).pose.dtype == torch.float64


def test_voteless_capsules_have_the_gradients_of_their_votes() -> None:
    layer = VotelessCaps(6, 4, 3).double()
    torch.nn.init.normal_(layer.routing.weight)
    pose, activation = (
        torch.randn(2, 6, 4).double().requires_grad_(),
        torch.rand(2, 6).double().requires_grad_(),
    )
    inputs = [pose, activation, layer.routing.weight, layer.routing.bias]
    slope = torch.randn(2, 3, 4).double()
    found = torch.autograd.grad(layer(Capsules(pose, activation)).pose, inputs, slope)
    votes = DenseVotes(pose, layer.weight, layer.space)
    wanted = torch.autograd.grad(layer.routing(votes, activation).pose.squeeze(1), inputs, slope)
    torch.testing.assert_close(found, wanted)


def test_self_routing_refuses_a_pose_space_that_it_would_not_use() -> None:
    with pytest.raises(ValueError, match="pose='matrix' has no effect"):
        create_model("self_routing_resnet20", pose="matrix", **SELF_ROUTING)


def test_other_routings_give_the_networks_that_self_routing_was_compared_with() -> None:
    """Parameters in millions, as in the table of Hahn et al. 2019."""
    sizes: dict[str, Any] = {"in_channels": 3, "image_size": 32}
    for options, published in [
        ({}, 0.9),
        ({"routing": "dynamic"}, 5.8),
        ({"routing": "em", "pose": "matrix"}, 0.9),
    ]:
        assert round(count("self_routing_resnet20", **sizes, **options) / 1e6, 1) == published


def test_inverted_capsnet_routes_all_layers_in_each_pass() -> None:
    model = create_model("inverted_capsnet", iterations=3, **INVERTED).eval()
    assert isinstance(model.capsules, ConcurrentCaps)
    assert model.capsules.iterations == 3
    images = torch.rand(2, 1, 28, 28)
    histories = model.routing_history(images)
    assert [len(each.iterations) for each in histories] == [3, 3, 3]
    torch.testing.assert_close(histories[-1].iterations[-1].logits, model(images).logits)
    # The votes are those that the last iteration clustered.
    for each in histories:
        last = each.iterations[-1]
        coupling, votes = last.coupling, each.votes
        total = torch.einsum("bpij,bpijd->bpjd", coupling.reshape(votes.shape[:-1]), votes).view_as(last.pose)
        layer = model.get_submodule(each.name)
        torch.testing.assert_close(last.pose, layer.routing.norm(total))


def test_only_classes_of_inverted_capsnet_have_a_score() -> None:
    model = create_model("inverted_capsnet", **INVERTED)
    assert [layer.routing.score is not None for layer in model.capsules.layers] == [False, False, True]
    names = [
        name for name, _ in create_model("inverted_capsnet", routing="em", **INVERTED).named_parameters()
    ]
    assert not any("score" in name for name in names)
    with pytest.raises(ValueError, match="second capsule layer needs at least 3"):
        create_model("inverted_capsnet", backbone="conv6", image_size=32)


def test_vb_capsnet_normalizes_poses_and_logits_of_each_type() -> None:
    layer = NormalizedConvCaps(2, 3, kernel_size=3, in_dim=4, routing="variational")
    children = Capsules(torch.randn(4, 6, 6, 2, 4), torch.rand(4, 6, 6, 2))
    routed = layer(children)
    for values in (routed.pose.movedim(3, 0), routed.logits.movedim(3, 0)):
        torch.testing.assert_close(values.flatten(1).mean(1), torch.zeros(3), atol=1e-5, rtol=0)
        torch.testing.assert_close(values.flatten(1).std(1, correction=0), torch.ones(3), atol=1e-2, rtol=0)
    torch.testing.assert_close(routed.activation, torch.sigmoid(routed.logits))


def test_looking_at_the_routing_of_vb_capsnet_does_not_change_it() -> None:
    layer = NormalizedConvCaps(2, 3, kernel_size=3, in_dim=4, routing="variational")
    children = Capsules(torch.randn(4, 6, 6, 2, 4), torch.rand(4, 6, 6, 2))
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    history = layer.history(children)
    assert all(torch.equal(before[name], value) for name, value in layer.state_dict().items())
    torch.testing.assert_close(history[-1].pose, layer(children).pose)
    assert not torch.equal(before["norm.pose.running_var"], layer.norm.pose.running_var)
    assert_child_permutation(layer.eval(), children)


def test_vb_capsnet_starts_with_small_weights() -> None:
    model = create_model("vb_capsnet", num_classes=5, in_channels=2, image_size=32)
    # Glorot: 72 children and 16 types at 9 places, 144 and 16, 16 and 5 classes, 16 numbers each.
    for layer, sums in [(model.first, 72 + 144), (model.second, 144 + 144), (model.classes, 16 + 5)]:
        largest = float(layer.weight.detach().abs().max())
        assert largest == pytest.approx((6 / (16 * sums)) ** 0.5, rel=0.02)
