"""Capsules on any backbone, and the two baselines on the same one."""

from __future__ import annotations

import re
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import torchcaps
from support.torchvision_import import import_timm
from torchcaps import CapsuleHead, ClassCaps, DenseCaps, create_model, create_routing
from torchcaps.data import load
from torchcaps.errors import MissingExtraError
from torchcaps.models import Model
from torchcaps.models.backbones import create_backbone
from torchcaps.models.weights import load_weights
from torchcaps.training import Recipe, default_recipe, train

HEADS = ["capsule_head", "pooled_trunk", "dense_trunk"]
RGB: dict[str, Any] = {"num_classes": 4, "in_channels": 3, "image_size": (32, 40)}
SMALL: dict[str, Any] = {"types": 4, "pose_dim": 4}


needs_timm = pytest.mark.skipif(not import_timm(), reason="needs timm")


def trained_one_step(model: Model) -> set[str]:
    """Names of the parameters that got a gradient from one batch."""
    output = model(torch.rand(3, 3, 32, 40))
    nn.functional.cross_entropy(output.logits, torch.tensor([0, 1, 3])).backward()
    return {name for name, each in model.named_parameters() if each.grad is not None and each.grad.any()}


@pytest.mark.parametrize("routing", ["uniform", "dynamic", "kmeans", "em"])
@pytest.mark.parametrize("pose", ["vector", "matrix"])
@pytest.mark.parametrize("hidden", [(), (3,)])
def test_every_parameter_trains_with_every_routing(routing: str, pose: str, hidden: tuple[int, ...]) -> None:
    model = create_model(
        "capsule_head", backbone="conv6", routing=routing, pose=pose, hidden=hidden, **SMALL, **RGB
    )
    assert trained_one_step(model) == {name for name, _ in model.named_parameters()}


def test_activations_have_their_own_convolution_only_where_routing_reads_them() -> None:
    for routing, separate in [("em", True), ("kmeans", True), ("dynamic", False), ("uniform", False)]:
        by_name = create_model("capsule_head", routing=routing, **SMALL)
        by_object = CapsuleHead(routing=create_routing(routing), in_channels=1, image_size=28, **SMALL)
        for model in (by_name, by_object):
            assert (model.primary.activation is not None) == separate


def test_pose_decides_the_class_layer_unless_it_is_given() -> None:
    kinds = {
        (pose, layer): type(create_model("capsule_head", pose=pose, class_layer=layer, **SMALL).classes)
        for pose in ("vector", "matrix")
        for layer in (None, "grid", "dense")
    }
    assert kinds == {
        ("vector", None): DenseCaps,
        ("vector", "grid"): ClassCaps,
        ("vector", "dense"): DenseCaps,
        ("matrix", None): ClassCaps,
        ("matrix", "grid"): ClassCaps,
        ("matrix", "dense"): DenseCaps,
    }


def test_hidden_layers_halve_the_grid() -> None:
    model = create_model("capsule_head", backbone="resnet20", hidden=[3, 5], **SMALL, **RGB)
    shapes = [
        tuple(layer.iterations[-1].pose.shape) for layer in model.routing_history(torch.rand(1, 3, 32, 40))
    ]
    assert shapes == [(1, 4, 5, 3, 4), (1, 2, 3, 5, 4), (1, 4, 4)]


def test_a_grid_reads_images_of_any_size_and_a_dense_layer_one() -> None:
    larger = torch.rand(2, 3, 48, 56)
    assert create_model("capsule_head", **SMALL, **RGB)(larger).scores.shape == (2, 4)
    assert create_model("pooled_trunk", **RGB)(larger).scores.shape == (2, 4)
    fixed = [{"class_layer": "dense"}, {"decoder": (8,)}]
    models = [create_model("capsule_head", **SMALL, **RGB, **each) for each in fixed]
    for model in [*models, create_model("dense_trunk", **RGB)]:
        with pytest.raises(ValueError, match=r"images must be .*H=32"):
            model(larger)
    with pytest.raises(ValueError, match="image_size is too small for conv5"):
        create_model("pooled_trunk", backbone="conv5", **RGB)(torch.rand(1, 3, 4, 4))


def test_a_decoder_draws_the_target() -> None:
    model = create_model("capsule_head", decoder=(8,), **SMALL, **RGB).eval()
    images, target = torch.rand(2, 3, 32, 40), torch.tensor([1, 2])
    output = model(images, target)
    assert output.reconstruction is not None
    assert output.capsules is not None
    torch.testing.assert_close(output.reconstruction, model.reconstruct(output.capsules, target))


@pytest.mark.parametrize("name", HEADS)
def test_any_module_is_a_backbone(name: str) -> None:
    own = nn.Sequential(nn.Conv2d(3, 6, 3, stride=2), nn.BatchNorm2d(6), nn.Dropout(), nn.ReLU())
    own[1].eval()
    before = {key: value.clone() for key, value in own.state_dict().items()}
    model = create_model(name, backbone=own, **RGB)
    # The run that finds the size changes neither statistics nor modes.
    assert all(torch.equal(before[key], value) for key, value in own.state_dict().items())
    assert [each.training for each in own] == [True, False, True, True]
    assert trained_one_step(model) == {key for key, _ in model.named_parameters()}


class Tokens(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(2)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"backbone": 3}, "backbone must be a name or a module, got int"),
        ({"backbone": Tokens()}, r"the output of the backbone must be \[B=1, C, H, W\], got \[1, 3, 1280\]"),
        ({"backbone": nn.Conv2d(1, 2, 3)}, r"the backbone cannot read images of \[3, 32, 40\]"),
        ({"backbone": nn.Conv2d(3, 2, 99)}, r"the backbone cannot read images of \[3, 32, 40\]"),
        ({"pretrained": True}, "pretrained is for backbones of timm, and 'resnet20' is none"),
        ({"backbone": nn.Conv2d(3, 2, 3), "stage": 1}, "stage is for backbones of timm, and Conv2d is none"),
        ({"class_layer": "gird"}, "unknown class_layer 'gird': did you mean 'grid'"),
        ({"hidden": 3}, "hidden must be a tuple of whole numbers"),
        ({"kernel_size": 0}, "kernel_size"),
        ({"kernel_size": 2}, "kernel_size must be odd"),
        ({"types": 0}, "types"),
        ({"pose": "vectr"}, "did you mean 'vector'"),
        ({"routing": "dyn"}, "did you mean 'dynamic'"),
        ({"bakbone": "conv5"}, "did you mean 'backbone'"),
        ({"decoder": 5}, "decoder"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        create_model("capsule_head", **RGB, **options)


@pytest.mark.parametrize("name", HEADS)
def test_missing_timm_is_said_in_one_sentence(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    says = (
        "'resnet18', not a trunk of torchcaps itself, needs the extra 'timm': pip install \"torchcaps[timm]\""
    )
    with pytest.raises(MissingExtraError, match=re.escape(says)):
        create_model(name, backbone="resnet18", **RGB)


def test_a_torchvision_of_another_torch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fails(MetaPathFinder):
        def find_spec(self, fullname: str, *_: object) -> None:
            if fullname == "timm":
                raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.delitem(sys.modules, "timm", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Fails(), *sys.meta_path])
    with pytest.raises(ImportError, match=r"torchvision::nms does not exist.*install the torchvision"):
        create_model("pooled_trunk", backbone="resnet18", **RGB)


class Maps(nn.Module):
    """What timm gives for `features_only`: a list of feature maps, with its facts."""

    def __init__(self, in_chans: int, channels_last: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_chans, 6, 4, 4)
        self.channels_last = channels_last
        self.feature_info = SimpleNamespace(channels=lambda: [6])

    def forward(self, images: Tensor) -> list[Tensor]:
        features = self.conv(images)
        return [features.permute(0, 2, 3, 1) if self.channels_last else features]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """A module in place of timm that records what it is called with."""
    calls: list[tuple[str, dict[str, Any]]] = []

    def create(name: str, **options: Any) -> nn.Module:
        calls.append((name, options))
        return Maps(options["in_chans"], channels_last=name.startswith("swin"))

    stub: Any = ModuleType("timm")
    stub.create_model = create
    stub.list_models = lambda: ["resnet18", "swin"]
    stub.is_model = lambda name: name in stub.list_models()
    monkeypatch.setitem(sys.modules, "timm", stub)
    return calls


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("backbone", ["resnet18", "swin"])
def test_a_timm_model_is_asked_for_one_feature_map(name: str, backbone: str, calls: list[Any]) -> None:
    model = create_model(name, backbone=backbone, stage=2, **RGB)
    common = {"in_chans": 3, "features_only": True, "out_indices": (2,)}
    assert calls == [(backbone, {"pretrained": False, **common})]
    assert model.backbone(torch.rand(1, 3, 32, 40)).shape == (1, 6, 8, 10)
    assert trained_one_step(model) == {key for key, _ in model.named_parameters()}


@pytest.mark.parametrize(("pretrained", "asked"), [(True, "resnet18"), ("a1_in1k", "resnet18.a1_in1k")])
def test_pretrained_goes_to_timm_and_the_backbone_can_be_frozen(
    pretrained: bool | str, asked: str, calls: list[Any]
) -> None:
    model = create_model(
        "capsule_head", backbone="resnet18", pretrained=pretrained, freeze=True, **SMALL, **RGB
    )
    assert [(name, options["pretrained"]) for name, options in calls] == [(asked, True)]
    frozen = {name for name, each in model.named_parameters() if not each.requires_grad}
    assert frozen == {"backbone.network.conv.weight", "backbone.network.conv.bias"}


def test_an_unknown_backbone_suggests_trunks_and_timm_models(calls: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"unknown backbone 'resnet8', .* did you mean 'resnet18'"):
        create_backbone("resnet8", 3, (32, 32))
    with pytest.raises(ValueError, match=r"unknown backbone 'conv55', .* did you mean 'conv5'"):
        create_backbone("conv55", 3, (32, 32))


def test_saved_weights_are_loaded_without_downloading(calls: list[Any], tmp_path: Path) -> None:
    recipe = default_recipe("pooled_trunk", "digits").override(
        [
            "model.options.backbone=resnet18",
            "model.pretrained=a1_in1k",
            "data.options.size=8",
            "data.limit=32",
            "training.epochs=1",
        ]
    )
    train(recipe, tmp_path)
    assert [options["pretrained"] for _, options in calls] == [True]
    calls.clear()
    load_weights(tmp_path / "last.safetensors")
    assert not any(options["pretrained"] for _, options in calls)


def test_a_recipe_names_backbone_and_routing(tmp_path: Path) -> None:
    text = """
    [model]
    name = "capsule_head"
    [model.options]
    backbone = "conv5"
    types = 2
    pose = "vector"
    pose_dim = 4
    routing = "dynamic"
    iterations = 2
    [data]
    name = "digits"
    limit = 64
    options = {size = 12}
    [training]
    epochs = 1
    """
    train(Recipe.from_toml(text), tmp_path)
    model, card = load_weights(tmp_path / "last.safetensors")
    assert isinstance(model, CapsuleHead)
    assert (card.model, card.options["backbone"], model.classes.routing.iterations) == (
        "capsule_head",
        "conv5",
        2,
    )


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noisy reddish and bluish images, one folder per class."""
    root, random = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for channel, name in [(0, "red"), (2, "blue")]:
        (root / name).mkdir()
        for number in range(20):
            pixels = random.integers(0, 150, (32, 32, 3), dtype=np.uint8)
            pixels[:, :, channel] += 100
            Image.fromarray(pixels).save(root / name / f"{number}.png")
    return root


@needs_timm
@pytest.mark.parametrize("name", HEADS)
def test_fit_trains_a_timm_backbone_on_a_folder(name: str, photos: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"backbone": "test_resnet", "stage": 2, "num_classes": 2, "in_channels": 3}
    torch.manual_seed(0)
    model = create_model(name, image_size=32, **options)
    assert create_backbone(model.backbone, 3, (32, 32)).grid == (4, 4)
    images, test = load(f"folder:{photos}"), load(f"folder:{photos}", "test")
    result = torchcaps.fit(model, images, test, out=tmp_path, epochs=8, batch_size=8, lr=0.003)
    assert result["metrics"]["test"]["accuracy"] == 1.0


@needs_timm
@pytest.mark.slow
@pytest.mark.parametrize("backbone", ["resnet18", "convnext_atto", "swin_tiny_patch4_window7_224"])
def test_heads_stand_on_published_timm_models(backbone: str) -> None:
    model = create_model("capsule_head", backbone=backbone, num_classes=3, in_channels=3, image_size=224)
    output = model(torch.rand(1, 3, 224, 224))
    assert output.scores.shape == (1, 3)
    assert create_backbone(model.backbone, 3, (224, 224)).grid == (7, 7)


@needs_timm
def test_an_unknown_name_is_not_one_of_timm_either() -> None:
    with pytest.raises(ValueError, match=r"unknown backbone 'resnet_18', .* did you mean 'resnet18'"):
        create_model("pooled_trunk", backbone="resnet_18")
