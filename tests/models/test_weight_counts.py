from typing import Any

import pytest
import torch

from torchcaps import create_model

NORB = {"num_classes": 5, "in_channels": 2, "image_size": 32}
CIFAR = {"in_channels": 3, "image_size": 32}
MONO = {**NORB, "in_channels": 1}


def weights(name: str, **options: Any) -> int:
    with torch.device("meta"):  # shapes without numbers: the largest is 35 M
        return sum(parameter.numel() for parameter in create_model(name, **options).parameters())


@pytest.mark.parametrize(
    ("name", "options", "published"),
    [
        ("capsnet", {}, 8_215_568),
        ("capsnet", {"decoder": None}, 6_804_224),
        ("matrix_capsnet_small", NORB, 68_618),
        # Gu and Tresp 2020; the second is ours, of the same form.
        ("aff_capsnet", {"image_size": 40}, 7_578_688),
        ("aff_capsnet_small", {"image_size": 40}, 338_368),
        # The CIFAR ResNet-20 of He et al. 2016, and the CNNs of Hahn et al. 2019 on one camera of smallNORB.
        ("pooled_trunk", CIFAR, 269_722),
        ("pooled_trunk", {**MONO, "backbone": "conv6"}, 144_309),
        ("self_routing_resnet20", {**MONO, "backbone": "conv6"}, 814_960),
        ("heinsen_capsnet", {**NORB, "image_size": 96}, 271_688),
        ("inverted_capsnet", CIFAR, 1_828_817),
        ("vb_capsnet", NORB, 68_714),
        ("vb_capsnet", {**CIFAR, "convs": 3}, 145_588),
        ("vb_capsnet", {**CIFAR, "convs": 3, "types": (16, 16, 16)}, 172_756),
        ("vb_capsnet", {**CIFAR, "convs": 3, "types": (16, 32, 32)}, 322_836),
        ("dense_trunk", {**MONO, "backbone": "conv6", "channels": 512}, 775_477),
    ],
)
def test_equals_the_published_count(name: str, options: dict[str, Any], published: int) -> None:
    assert weights(name, **options) == published


@pytest.mark.parametrize(
    ("name", "options", "published"),
    [
        ("matrix_capsnet", NORB, 316_000),
        ("norb_cnn", NORB, 4_200_000),
        ("capsnet_cnn", {}, 35_400_000),
        ("shared_capsnet", {}, 270_000),
        ("pooled_cnn", {}, 270_000),
    ],
)
def test_is_near_the_published_count(name: str, options: dict[str, Any], published: int) -> None:
    assert weights(name, **options) == pytest.approx(published, rel=0.04)


def test_the_twins_are_equally_heavy_and_the_small_network_is_small() -> None:
    assert weights("shared_capsnet") == pytest.approx(weights("pooled_cnn"), rel=0.02)
    assert weights("capsnet_small") <= 1_000_000


def test_vector_poses_take_a_full_matrix_for_every_vote() -> None:
    matrix, vector = (weights("matrix_capsnet_small", **NORB, pose=pose) for pose in ("matrix", "vector"))
    votes = 9 * 8 * 16 + 9 * 16 * 16 + 16 * 5
    assert vector - matrix == votes * (16 * 16 - 4 * 4)
