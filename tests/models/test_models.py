"""One sweep over the registry, and what single networks promise beyond it."""

from copy import deepcopy
from typing import Any

import pytest
import torch

from torchcaps import (
    Capsules,
    activation_cross_entropy,
    create_model,
    list_models,
    margin_loss,
    reconstruction_loss,
)
from torchcaps.models import CapsuleModel, Model, Output
from torchcaps.routing import EMRouting, Routing

# Fewer channels where only the form is looked at; the true widths are counted in test_weight_counts.
THIN: dict[str, dict[str, Any]] = {
    "aff_capsnet": {"channels": 8, "types": 2, "decoder": (16, 16)},
    "aff_capsnet_small": {"channels": 8, "types": 2},
    "capsnet": {"channels": 8, "types": 2, "decoder": (16, 16)},
    "capsnet_small": {"channels": 8, "types": 2, "decoder": (16, 16)},
    "capsnet_cnn": {"channels": (4, 4, 4), "hidden": (32, 32), "dropout": 0},
    "efficient_capsnet": {"decoder": (16, 16)},
    "efficient_capsnet_norb": {},
    "efficient_capsnet_overlap": {"decoder": (16, 16)},
    "capsule_head": {"backbone": "preact", "types": 4, "pose_dim": 4},
    "dense_trunk": {"backbone": "conv5"},
    "heinsen_capsnet": {"channels": 8, "types": 4, "pose_dim": 4},
    "inverted_capsnet": {"backbone": "conv5", "types": (2, 3, 2), "pose_dim": 4},
    "matrix_capsnet": {"channels": 4, "types": (2, 3, 2)},
    "matrix_capsnet_small": {"channels": 4, "types": (2, 2, 3)},
    "norb_cnn": {},
    "parts_capsnet": {"channels": 4, "proposals": 5},
    "parts_cnn": {"channels": 4},
    "pooled_cnn": {"stages": ((8, 8), (8,)), "hidden": 8},
    "pooled_trunk": {"backbone": "resnet20"},
    "self_routing_resnet20": {"backbone": "conv6", "types": 4, "pose_dim": 4},
    "shared_capsnet": {"stages": ((8, 8), (8,))},
    "vb_capsnet": {"channels": 4, "types": (2, 2, 3)},
}
# Networks that need larger images than the sweep has.
LEAST = {"heinsen_capsnet": 29}
# Batch normalization of the logits removes what these add to them.
WITHOUT_EFFECT = {"vb_capsnet": ("beta_a", "beta_u")}
# Passes of a stack whose layers are routed together.
PASSES = {"inverted_capsnet": 2}
# `parts_capsnet` has no routing: its wholes choose among proposals.
CAPSULES = [name for name in THIN if not name.endswith(("cnn", "trunk")) and name != "parts_capsnet"]
# Each size with another number of channels and classes.
SIZES = [(24, 1, 2), (28, 2, 10), (32, 3, 100), (48, 4, 5), (96, 1, 3), ((24, 40), 2, 4), ((33, 27), 1, 7)]


def build(name: str, *, image_size: int | tuple[int, int] = 28, **options: Any) -> Model:
    least = LEAST.get(name, 1)
    height, width = (image_size, image_size) if isinstance(image_size, int) else image_size
    size = max(height, least), max(width, least)
    return create_model(name, image_size=size, **options, **THIN[name])


def images_for(model: Model, batch: int = 2) -> torch.Tensor:
    return torch.rand(batch, model.in_channels, *model.image_size)


def loss_of(output: Output, images: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    loss = margin_loss(output.scores, target) + activation_cross_entropy(output.logits, target)
    return (
        loss if output.reconstruction is None else loss + reconstruction_loss(output.reconstruction, images)
    )


def leave_zero(model: Model) -> None:
    """Move parameters that start at 0, such as route weights: nothing below them learns until they move."""
    for parameter in model.parameters():
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.1)


def test_the_sweep_knows_every_model() -> None:
    assert list_models() == sorted(THIN)


@pytest.mark.parametrize("name", THIN)
@pytest.mark.parametrize(("size", "channels", "classes"), SIZES)
def test_any_size_builds_and_trains_one_step(name: str, size: Any, channels: int, classes: int) -> None:
    model = build(name, image_size=size, in_channels=channels, num_classes=classes)
    leave_zero(model)
    images, target = images_for(model), torch.tensor([0, classes - 1])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    output = model(images, target)
    assert output.scores.shape == output.logits.shape == (2, classes)
    assert 0 <= float(output.scores.detach().min()) <= float(output.scores.detach().max()) <= 1
    loss = loss_of(output, images, target)
    loss.backward()
    for what, parameter in model.named_parameters():
        assert parameter.grad is not None, what
        assert parameter.grad.isfinite().all(), what
        assert parameter.grad.any() or what.endswith(WITHOUT_EFFECT.get(name, ())), what
    optimizer.step()
    assert loss_of(model(images, target), images, target).isfinite()


@pytest.mark.parametrize("name", CAPSULES)
@pytest.mark.parametrize("routing", ["uniform", "dynamic", "kmeans", "em"])
def test_every_capsule_network_takes_every_routing(name: str, routing: str) -> None:
    model = build(name, image_size=24, routing=routing)
    output = model(images_for(model))
    output.scores.sum().backward()
    assert output.scores.isfinite().all()


@pytest.mark.parametrize("name", THIN)
def test_samples_do_not_see_each_other(name: str) -> None:
    model = build(name).eval()
    images = images_for(model, 3)
    torch.testing.assert_close(model(images[1:2]).scores, model(images).scores[1:2], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", THIN)
def test_copies_and_saved_weights_say_the_same(name: str) -> None:
    model, other = build(name).eval(), build(name).eval()
    other.load_state_dict(model.state_dict())
    images = images_for(model)
    for twin in (deepcopy(model), other, model):
        assert torch.equal(twin(images).scores, model(images).scores)


@pytest.mark.parametrize("name", CAPSULES)
def test_trace_ends_where_forward_does(name: str) -> None:
    model = build(name).eval()
    assert isinstance(model, CapsuleModel)
    images = images_for(model)
    output, trace = model(images), model.routing_history(images)
    assert output.capsules is not None
    last = trace[-1].iterations[-1]
    torch.testing.assert_close(last.pose, output.capsules.pose, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(last.activation, output.scores, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(last.logits, output.logits, atol=1e-3, rtol=1e-3)
    for layer in trace:
        own = model.get_submodule(layer.name).routing.iterations
        assert len(layer.iterations) == PASSES.get(name, own)
        for routed in layer.iterations:
            assert routed.coupling is not None
            assert routed.coupling.numel() * layer.votes.shape[-1] == layer.votes.numel()


def test_trace_names_the_layers_from_the_bottom_up() -> None:
    model = build("matrix_capsnet")
    assert isinstance(model, CapsuleModel)
    assert [layer.name for layer in model.routing_history(images_for(model))] == [
        "first",
        "second",
        "classes",
    ]
    assert not model.first._forward_pre_hooks


@pytest.mark.parametrize("name", list_models())
def test_forward_hooks_fire_on_every_layer(name: str) -> None:
    """Tools such as torchinfo and FSDP see a layer only if the model calls it."""
    model = build(name)
    called = set()
    for module in model.modules():
        module.register_forward_hook(lambda module, _args, _output: called.add(module))
    model(images_for(model))
    containers = (torch.nn.Sequential, torch.nn.ModuleList)
    # A routing may use the weights of its own parts, in a precision that it chooses.
    parts = {part for each in model.modules() if isinstance(each, Routing) for part in each.children()}
    missing = [
        type(module).__name__
        for module in model.modules()
        if module not in called | parts and not isinstance(module, containers)
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("option", "wanted"),
    [
        ("in_chans", "in_channels"),
        ("img_size", "image_size"),
        ("n_classes", "num_classes"),
        ("num_clases", "num_classes"),
    ],
)
def test_names_of_other_libraries_are_answered_with_ours(option: str, wanted: str) -> None:
    with pytest.raises(ValueError, match=f"has no option '{option}': did you mean '{wanted}'"):
        create_model("capsnet_small", **{option: 3})


def test_a_squash_reaches_both_layers_and_the_primary_one_can_differ() -> None:
    model = create_model("capsnet_small", squash="half")
    assert (model.primary.squash, model.classes.routing.squash) == ("half", "half")
    model = create_model("capsnet_small", primary_squash="none")
    assert (model.primary.squash, model.classes.routing.squash) == ("none", "hinton")
    assert model(torch.rand(2, 1, 28, 28)).scores.isfinite().all()


def test_matrix_capsules_read_larger_images_than_they_were_built_for() -> None:
    model = create_model("matrix_capsnet_small", image_size=28)
    assert model(torch.rand(2, 1, 40, 33)).scores.shape == (2, 10)
    with pytest.raises(ValueError, match="second capsule layer needs at least 3"):
        model(torch.rand(2, 1, 16, 16))


def test_more_types_are_more_layers_of_matrix_capsules() -> None:
    torch.manual_seed(0)
    options: dict[str, Any] = {"channels": 4, "image_size": 36}
    deep = create_model("matrix_capsnet_small", types=(2, 3, 4, 5, 6), **options)
    images = torch.rand(2, 1, 36, 36)
    names = [history.name for history in deep.routing_history(images)]
    assert names == ["first", "second", "further.0", "further.1", "classes"]
    assert deep.forward_features(images).pose.shape == (2, 1, 1, 6, 16)
    deep(images).logits.sum().backward()
    assert all(parameter.grad is not None for parameter in deep.parameters())
    keys = create_model("matrix_capsnet_small", types=(2, 3, 4), **options).state_dict()
    assert not [key for key in keys if key.startswith("further")]  # weights of three layers load as before


def test_decoder_draws_the_target_in_training_and_the_longest_in_test() -> None:
    model = build("capsnet")
    assert isinstance(model, CapsuleModel)
    images = images_for(model)
    output, target = model(images), torch.tensor([3, 7])
    assert output.capsules is not None
    assert output.reconstruction is not None
    assert output.reconstruction.shape == images.shape
    longest = output.scores.argmax(1)
    torch.testing.assert_close(output.reconstruction, model.reconstruct(output.capsules, longest))
    torch.testing.assert_close(
        model(images, target).reconstruction, model.reconstruct(output.capsules, target)
    )
    assert not torch.allclose(
        model(images, target).reconstruction, model(images, (target + 1)).reconstruction
    )


def test_models_without_a_decoder_say_so() -> None:
    bare = create_model("capsnet", **{**THIN["capsnet"], "decoder": None})
    assert bare(images_for(bare)).reconstruction is None
    for model in (bare, build("shared_capsnet")):
        assert isinstance(model, CapsuleModel)
        with pytest.raises(ValueError, match="without a decoder"):
            model.reconstruct(Capsules(torch.ones(1, 10, 16), torch.ones(1, 10)), torch.tensor([1]))


@pytest.mark.parametrize("name", ["shared_capsnet", "pooled_cnn"])
def test_shared_models_read_larger_images(name: str) -> None:
    model = build(name, image_size=24)
    assert model(torch.rand(2, 1, 40, 64)).scores.shape == (2, 10)
    with pytest.raises(ValueError, match=f"image_size is too small for {name}: its .* needs at least"):
        model(torch.rand(2, 1, 5, 24))


@pytest.mark.parametrize(
    ("name", "size", "layer"),
    [
        ("capsnet", 8, "first convolution needs at least 9 pixels, gets 8"),
        ("capsnet_small", (28, 16), "primary capsule layer needs at least 9 pixels, gets 8"),
        ("matrix_capsnet", 4, "first convolution"),
        ("matrix_capsnet_small", 12, "second capsule layer"),
        ("norb_cnn", 3, "second pooling"),
        ("shared_capsnet", 12, "3×3 convolution"),
        ("pooled_cnn", (5, 28), "pooling"),
    ],
)
def test_an_impossible_size_says_which_and_why(name: str, size: Any, layer: str) -> None:
    with pytest.raises(ValueError, match=f"image_size is too small for .*{layer}"):
        create_model(name, image_size=size)


@pytest.mark.parametrize("name", THIN)
@pytest.mark.parametrize(
    "bad",
    [
        {"image_size": "28"},
        {"image_size": 28.0},
        {"image_size": (28,)},
        {"image_size": (28, "28")},
        {"image_size": 0},
        {"image_size": True},
        {"num_classes": 0},
        {"num_classes": 2.5},
        {"num_classes": "3"},
        {"in_channels": 0},
    ],
)
def test_bad_sizes_are_named(name: str, bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        create_model(name, **bad)


@pytest.mark.parametrize(
    ("name", "option", "says"),
    [
        ("capsnt", {}, "unknown model 'capsnt': did you mean 'capsnet'"),
        (None, {}, "unknown model None"),
        ("capsnet", {"iteration": 3}, "model 'capsnet' has no option 'iteration': did you mean 'iterations'"),
        ("capsnet", {"chanels": 3}, "did you mean 'channels'"),
        ("matrix_capsnet", {"normalise_mass": True}, "did you mean 'normalize_mass'"),
        ("matrix_capsnet", {"routing": "dynamic", "covariance": "full"}, "has no option 'covariance'"),
        ("norb_cnn", {"dropuot": 0.1}, "did you mean 'dropout'"),
        ("pooled_cnn", {"iterations": 3}, "model 'pooled_cnn' has no option 'iterations'"),
        ("capsnet", {"routing": "dyn"}, "did you mean 'dynamic'"),
        ("capsnet", {"routing": EMRouting(), "iterations": 2}, "routing is already an object"),
        ("capsnet", {"iterations": 0}, "iterations"),
        ("capsnet", {"channels": 0}, "channels"),
        ("capsnet", {"decoder": 5}, "decoder"),
        ("capsnet", {"decoder": (0,)}, "decoder"),
        ("matrix_capsnet", {"types": (1, 2)}, "types must be 3 whole numbers or more"),
        ("matrix_capsnet", {"types": 3}, "types must be 3 whole numbers or more"),
        ("matrix_capsnet", {"types": (1, 2, 3, 0)}, "types must be a whole number of at least 1"),
        ("matrix_capsnet", {"types": (1,) * 9, "image_size": 28}, "capsule layer 4"),
        ("matrix_capsnet", {"coordinates": "no"}, "coordinates"),
        ("shared_capsnet", {"stages": ()}, "stages"),
        ("shared_capsnet", {"stages": (64, 64)}, "stages"),
        ("pooled_cnn", {"stages": ((),)}, "stages"),
        ("pooled_cnn", {"hidden": 0}, "hidden"),
        ("norb_cnn", {"dropout": "a"}, "dropout"),
        ("norb_cnn", {"dropout": 2}, "dropout"),
        ("capsnet_cnn", {"channels": (1, 2)}, "channels"),
        ("capsnet_cnn", {"hidden": (0, 1)}, "hidden"),
    ],
)
def test_bad_options_are_named(name: Any, option: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        create_model(name, **option)


@pytest.mark.parametrize("name", THIN)
@pytest.mark.parametrize(
    ("images", "says"),
    [
        (torch.ones(2, 3, 28, 28), "images must be .*C=1"),
        (torch.ones(28, 28), "images must be"),
        (torch.ones(2, 1, 28, 28, dtype=torch.uint8), "images must be a floating"),
        (torch.ones(2, 1, 28, 28).double(), "images must be torch.float32 as the weights are"),
        ([[0.0]], "images must be a tensor"),
    ],
)
def test_bad_images_are_refused_by_name(name: str, images: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        build(name)(images)


@pytest.mark.parametrize("target", [torch.tensor([0, 10]), torch.tensor([0.0, 1.0]), torch.tensor([0]), 3])
def test_bad_targets_are_refused_by_name(target: Any) -> None:
    model = build("capsnet")
    with pytest.raises(ValueError, match="target must"):
        model(images_for(model), target)


@pytest.mark.slow
@pytest.mark.parametrize("name", THIN)
def test_exports(name: str) -> None:
    model = build(name).eval()
    images = images_for(model)
    exported = torch.export.export(model, (images,)).module()
    torch.testing.assert_close(exported(images).scores, model(images).scores, atol=1e-5, rtol=1e-4)
