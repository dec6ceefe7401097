"""What every parse tree keeps, for every registered capsule network."""

import json
from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn

from models.test_models import THIN, build, images_for
from support.found_parts import find_something
from torchcaps import Capsules, ClassCaps, ConvCaps, DenseCaps, create_model, parse
from torchcaps.models import Model, PartsCapsNet
from torchcaps.models.weights import ModelCard
from torchcaps.parsing import Mask, Names, Node, ParseTree

NETWORKS = [name for name in THIN if not name.endswith(("cnn", "trunk"))]


def network(name: str, **options: Any) -> Model:
    torch.manual_seed(0)
    model = build(name, image_size=(32, 40), in_channels=1, num_classes=4, **options)
    if isinstance(model, PartsCapsNet):
        find_something(model)
    return model


@pytest.fixture(params=NETWORKS)
def case(request: pytest.FixtureRequest) -> tuple[Model, torch.Tensor]:
    model = network(request.param)
    return model, images_for(model, 3)


def identity(node: Node) -> tuple[object, ...]:
    return node.level, node.type, node.position, node.pose


def check_tree(tree: ParseTree) -> None:
    nodes = tree.nodes()
    assert tree.roots
    # No capsule is in the tree twice, so that each has at most one parent.
    assert max(Counter(map(identity, nodes)).values()) == 1
    for node in nodes:
        assert 0 <= node.presence <= 1
        assert all(child.coupling is not None and 0 <= child.coupling <= 1 for child in node.children)
        shares = [child.share or 0.0 for child in node.children]
        assert shares == sorted(shares, reverse=True)
        assert node.shown == pytest.approx(sum(shares))
        assert 0 <= node.shown <= 1 + 1e-6
        if node.box is not None:
            left, top, right, bottom = node.box
            assert 0 <= left < right <= tree.size[1]
            assert 0 <= top < bottom <= tree.size[0]
    assert all(node.coupling is None and node.share is None for node in (*tree.roots, *tree.loose))


def check_masks(tree: ParseTree) -> None:
    masks = tree.masks()
    assert all(isinstance(each, Mask) and each.mask.shape == tree.size for each in masks)
    for level in {each.node.level for each in masks}:
        total = torch.stack([each.mask for each in masks if each.node.level == level]).sum(0)
        assert float(total.min()) >= 0
        assert float(total.max()) <= 1 + 1e-5
    for mask, box in ((each.mask, each.box) for each in masks):
        if box is None:
            assert not mask.any()
            continue
        left, top, right, bottom = box
        high = mask >= 0.5 * mask.max()
        assert int(high.sum()) == int(high[top:bottom, left:right].sum()) > 0


def test_trees_keep_their_laws_and_survive_json(case: tuple[Model, torch.Tensor]) -> None:
    model, images = case
    model.train()
    trees = parse(model, images)
    assert model.training
    assert len(trees) == len(images)
    for tree in trees:
        check_tree(tree)
        check_masks(tree)
        assert ParseTree.from_dict(json.loads(json.dumps(tree.to_dict()))) == tree
        assert len(str(tree).splitlines()) >= 1 + len(tree.nodes())
    # Another order of the images is another order of the trees.
    turned = parse(model, images.flip(0))
    for tree, other in zip(trees, reversed(turned)):
        assert [identity(node)[:3] for node in tree.nodes()] == [identity(node)[:3] for node in other.nodes()]
        for first, second in zip(tree.nodes(), other.nodes()):
            torch.testing.assert_close(torch.tensor(first.pose), torch.tensor(second.pose))
            assert first.coupling == pytest.approx(second.coupling, abs=1e-5)


def test_paths_follow_the_couplings_by_hand() -> None:
    """Children, couplings, shares and masks of two convolutional layers against plain loops."""
    torch.manual_seed(0)
    model = TwoLayers().eval()
    images = torch.rand(1, 1, 6, 6)
    with torch.no_grad():
        primary = model.primary(images)
        first = model.first(primary, coupling=True)
        top = model.classes(first, coupling=True)
    (tree,) = parse(model, images, children=5, threshold=1.0)
    (root,) = tree.roots
    assert root.type == int(top.activation.argmax())
    assert first.coupling is not None
    assert top.coupling is not None
    given = top.coupling[0, :, root.type] * first.activation.flatten()
    best = given.argsort(descending=True)[:5].tolist()
    assert [(*child.position, child.type) for child in root.children if child.position] == [
        (number // 3 // 2, number // 3 % 2, number % 3) for number in best
    ]
    torch.testing.assert_close(
        torch.tensor([child.share for child in root.children]), given[best] / given.sum()
    )
    # Kernel 3, stride 2, padding 1: field (r, c) has the children at rows 2 r - 1 to 2 r + 1.
    for child in root.children:
        row, column = child.position or (0, 0)
        coupling, total = {}, 0.0
        for place in range(9):
            y, x = 2 * row - 1 + place // 3, 2 * column - 1 + place % 3
            if 0 <= y < 3 and 0 <= x < 3:
                for kind in range(2):
                    value = float(first.coupling[0, row, column, 2 * place + kind, child.type])
                    coupling[y, x, kind] = value
                    total += value * float(primary.activation[0, y, x, kind])
        for grandchild in child.children:
            y, x = grandchild.position or (0, 0)
            value = coupling[y, x, grandchild.type]
            assert grandchild.coupling == pytest.approx(value, abs=1e-6)
            assert grandchild.share == pytest.approx(value * grandchild.presence / total, abs=1e-5)
            assert grandchild.box == (2 * x, 2 * y, 2 * x + 2, 2 * y + 2)
    # Along each path couplings and activations are multiplied.
    flow = torch.zeros(3, 3)
    for position in range(4):
        for place in range(9):
            y, x = 2 * (position // 2) - 1 + place // 3, 2 * (position % 2) - 1 + place % 3
            if 0 <= y < 3 and 0 <= x < 3:
                for kind in range(2):
                    for parent in range(3):
                        flow[y, x] += (
                            primary.activation[0, y, x, kind]
                            * first.coupling[0, position // 2, position % 2, 2 * place + kind, parent]
                            * first.activation[0, position // 2, position % 2, parent]
                            * top.coupling[0, 3 * position + parent, root.type]
                        ) / 2
    expected = flow.repeat_interleave(2, 0).repeat_interleave(2, 1)
    torch.testing.assert_close(tree.masks()[0].mask, expected)


class TwoLayers(nn.Module):
    """Pixels in blocks of 2×2 → 3×3 positions of 2 types → 2×2 positions of 3 types → 2 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 10, 2, stride=2)
        self.first = ConvCaps(2, 3, kernel_size=3, stride=2, padding=1, in_dim=4)
        self.classes = ClassCaps(3, 2, in_dim=4)

    def primary(self, images: torch.Tensor) -> Capsules:
        pose, activation = self.conv(images).permute(0, 2, 3, 1).split([8, 2], -1)
        return Capsules(pose.unflatten(-1, (2, 4)), torch.sigmoid(activation))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.classes(self.first(self.primary(images))).activation


def test_layers_that_are_routed_together_show_their_last_pass() -> None:
    model = network("inverted_capsnet").eval()
    images = images_for(model, 1)
    (tree,) = parse(model, images, threshold=1.0)
    histories = model.routing_history(images)
    last = histories[-1].iterations[-1]
    root = tree.roots[0]
    assert root.presence == pytest.approx(float(last.activation[0, root.type].detach()))
    child = root.children[0]
    assert child.position is not None
    grid = histories[1].iterations[-1].activation.shape[1:]
    number = (child.position[0] * grid[1] + child.position[1]) * grid[2] + child.type
    assert last.coupling is not None
    assert child.coupling == pytest.approx(float(last.coupling[0, number, root.type].detach()))


def test_a_child_is_left_to_the_class_that_takes_most_of_it() -> None:
    model = network("shared_capsnet").eval()
    images = images_for(model, 1)
    (tree,) = parse(model, images, threshold=0.0, children=4)
    assert len(tree.roots) == 4
    coupling = model.routing_history(images)[-1].iterations[-1].coupling
    assert coupling is not None
    for root in tree.roots:
        for child in root.children:
            assert int(coupling[0, child.type].argmax()) == root.type


def test_names_come_from_the_card_or_are_numbers() -> None:
    card = ModelCard("x", {}, 2, 1, (8, 8), ("a", "b"), facts={"kinds": ["p"], "groups": 3})
    assert Names.of_card(card) == Names(("a", "b"), ("p",), ())
    model = network("parts_capsnet", kinds=2, groups=2)
    (tree,) = parse(model, images_for(model, 1), names=Names(("a", "b"), ("p",)), threshold=0.0)
    for node in tree.nodes():
        expected = {
            "part": ("p", "kind 1"),
            "whole": ("a", "b", "whole 2", "whole 3"),
            "group": ("group 0", "group 1"),
        }
        assert node.name == expected[node.level][node.type]


def test_wrong_input_is_named() -> None:
    images = torch.rand(1, 1, 28, 28)
    cnn = create_model("pooled_cnn", num_classes=2, in_channels=1, image_size=28)
    with pytest.raises(ValueError, match="capsule layers, and PooledCNN has none"):
        parse(cnn, images)
    model = create_model("capsnet_small", num_classes=2, in_channels=1, image_size=28, channels=4)
    with pytest.raises(ValueError, match="images"):
        parse(model, images[0])
    with pytest.raises(ValueError, match="threshold must be at most 1"):
        parse(model, images, threshold=1.5)
    with pytest.raises(ValueError, match="children"):
        parse(model, images, children=0)
    with pytest.raises(ValueError, match=r"names must be torchcaps\.parsing\.Names.*got list"):
        parse(model, images, names=["cat", "dog"])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"model must be a torch\.nn\.Module, got str"):
        parse("capsnet_small-mnist", images)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["parts_capsnet", "capsnet_small"])
def test_pixels_that_cannot_be_read_are_named(name: str) -> None:
    model = network(name)
    images = images_for(model, 2)
    for value in (torch.nan, torch.inf):
        wrong = images.clone()
        wrong[0, 0, 3, 4] = value
        with pytest.raises(ValueError, match="1 of 2560 pixels are NaN or infinite"):
            parse(model, wrong)
    with pytest.raises(ValueError, match=r"in 0\.\.1, and hold values from .*by 255"):
        parse(model, 255 * images.abs().clamp(max=1))
    # Standardized pixels are farther from 0 than 1.
    assert len(parse(model, 8 * torch.randn_like(images))) == 2


@pytest.mark.parametrize("name", ["parts_capsnet", "capsnet_small"])
def test_no_images_have_no_trees(name: str) -> None:
    model = network(name)
    assert parse(model, images_for(model, 1)[:0]) == []


def test_the_text_says_what_primary_capsules_on_a_grid_see() -> None:
    model = network("capsnet_small")
    (tree,) = parse(model, images_for(model, 1))
    child = tree.roots[0].children[0]
    assert child.position is not None
    assert child.box is not None
    text = "row {}, column {}, ".format(*child.position) + "sees ({}, {}) to ({}, {}) px".format(*child.box)
    assert text in str(tree)


def test_dense_layers_without_a_grid_see_what_their_capsules_see() -> None:
    """Four capsules from the quarters of an image, in a layer without a grid."""

    class Quarters(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.classes = DenseCaps(4, 9, 2, 4)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            blocks = images.unfold(2, 3, 3).unfold(3, 3, 3).flatten(4).flatten(1, 3)
            return self.classes(blocks / 3).activation

    (tree,) = parse(Quarters(), torch.rand(1, 1, 6, 6), children=4, threshold=1.0)
    for child in tree.roots[0].children:
        y, x = divmod(child.type, 2)
        assert child.box == (3 * x, 3 * y, 3 * x + 3, 3 * y + 3)
