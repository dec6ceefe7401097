import pytest
import torch

from torchcaps.data.worlds.flat import SceneOptions, SceneStream
from torchcaps.data.worlds.shapes import SHAPES
from torchcaps.experiments.framework.study import count_parameters
from torchcaps.experiments.wholes.baselines import HEADS, ImageNetwork, make_trunk, resnet_detector, trunk_of
from torchcaps.experiments.wholes.parts import train_parts
from torchcaps.experiments.wholes.set_baselines import PartMLP, SetTransformer
from torchcaps.models import PartsCapsNet


@pytest.mark.parametrize(
    ("trunk", "head"), [("detector", "dense"), ("detector", "pooled"), ("resnet", "pooled")]
)
def test_cnns_have_about_as_many_weights_as_capsules(trunk: str, head: str) -> None:
    capsules = count_parameters(PartsCapsNet(num_classes=8, in_channels=1, image_size=64))
    network = ImageNetwork(make_trunk(trunk, 20), 40, outputs=8, head=head)
    assert count_parameters(network) == pytest.approx(capsules, rel=0.2)


@pytest.mark.parametrize("head", HEADS)
def test_only_pooling_ignores_places(head: str) -> None:
    """A pattern far from the borders, moved by one stride of the trunk."""
    torch.manual_seed(0)
    network = ImageNetwork(make_trunk("resnet", 4), 8, outputs=3, head=head).eval()
    images = torch.zeros(1, 1, 128, 128, dtype=torch.uint8)
    images[..., 60:66, 60:66] = 255
    with torch.no_grad():
        moved = network(images.roll((16, 16), (2, 3)))
        assert torch.allclose(moved, network(images), atol=1e-6) == (head == "pooled")


def test_a_resnet_learns_parts() -> None:
    torch.manual_seed(0)
    detector = resnet_detector(3, 4)
    before = detector.first[0].weight.clone()
    options = SceneOptions(size=32, parts=2)
    train_parts(detector, SceneStream(SHAPES, "parts", batch_size=4, batches=2, options=options))
    assert not torch.equal(detector.first[0].weight, before)
    make_trunk("resnet", 4).load_state_dict(trunk_of(detector).state_dict())


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="trunk"):
        make_trunk("vgg", 4)
    with pytest.raises(ValueError, match="head"):
        ImageNetwork(make_trunk("resnet", 4), 8, outputs=3, head="flat")


def parts(count: int = 5, number: int = 7) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    return (
        torch.randint(3, (count, number), generator=generator),
        torch.randn(count, number, 4, generator=generator),
        torch.rand(count, number, generator=generator),
    )


@pytest.mark.parametrize("build", [PartMLP, SetTransformer])
def test_the_order_of_parts_does_not_matter(build) -> None:
    torch.manual_seed(0)
    network, found = build(3, 8), parts()
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    shuffled = tuple(values[:, order] for values in found)
    assert torch.allclose(network(*found), network(*shuffled), atol=1e-5)


@pytest.mark.parametrize("build", [PartMLP, SetTransformer])
def test_absent_parts_have_no_influence_and_present_ones_have(build) -> None:
    torch.manual_seed(0)
    network, (kind, pose, activation) = build(3, 8), parts()
    other = pose.clone()
    other[:, 2] += 1
    for presence in (0.0, 0.9):
        activation[:, 2] = presence
        same = torch.allclose(network(kind, pose, activation), network(kind, other, activation), atol=1e-4)
        assert same == (presence == 0)
