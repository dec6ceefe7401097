"""What the view of parts and wholes returns is what `torchcaps.parse` finds in the same picture."""

import base64
from typing import Any

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient

import torchcaps
from support.lab_scenes import random_place, scene_parts
from torchcaps.data import load
from torchcaps.data.worlds.faces import FACES
from torchcaps.data.worlds.flat import Scenes, World
from torchcaps.data.worlds.shapes import SHAPES as SHAPE_WORLD
from torchcaps.experiments.wholes import cnn
from torchcaps.experiments.wholes import network as capsules
from torchcaps.lab.model_store import ModelStore, load_model_store
from torchcaps.lab.schemas import PartsRequest
from torchcaps.lab.views.parts import MODEL, SIZE, draw_parts, list_shapes, read
from torchcaps.models import PartsCapsNet
from torchcaps.parsing import Names

SHAPES = list_shapes()


@pytest.fixture(scope="module")
def trained() -> ModelStore:
    return load_model_store()


@pytest.mark.parametrize("seed", range(4))
def test_the_answer_is_the_parse_tree(trained: ModelStore, seed: int) -> None:
    first, second = SHAPES.wholes[seed], SHAPES.wholes[7 - seed]
    parts = scene_parts(first.parts, (-0.45, 0.2, 40 * seed, 0.45))
    parts += scene_parts(second.parts, (0.45, -0.2, 10, 0.45)) + scene_parts(
        second.parts[:1], (0, -0.8, 0, 0.3)
    )
    response = read(trained, PartsRequest(parts=parts))
    network = trained[MODEL, "shapes"]
    image = network.prepare(draw_parts(parts)[0])
    [tree] = torchcaps.parse(network.model, image, names=Names.of_card(network.card))
    for level, found in (("part", response.parts), ("whole", response.wholes)):
        nodes = tree.nodes(level)
        assert sorted(node.name for node in nodes) == sorted(each.name for each in found)
        expected = sorted(node.pose for node in nodes)
        np.testing.assert_allclose(sorted(tuple(each.pose) for each in found), expected, atol=1e-3)
    members = {
        (whole.name, *sorted(part.name for part in response.parts if part.whole == index))
        for index, whole in enumerate(response.wholes)
    }
    assert members == {(w.name, *sorted(part.name for part in w.children)) for w in tree.nodes("whole")}
    assert sum(part.whole < 0 for part in response.parts) == len(tree.loose)


def test_the_pixels_are_the_picture(client: TestClient) -> None:
    part = {"kind": 0, "x": 0.5, "y": 0.5, "angle": 0, "scale": 0.3}
    response = client.post("/api/parts", json={"parts": [part]}).json()
    pixels = np.frombuffer(base64.b64decode(response["pixels"]), np.uint8).reshape(SIZE, SIZE)
    assert pixels[SIZE // 4, SIZE * 3 // 4] > 100, "right and up"
    assert pixels[SIZE * 3 // 4].max() == 0


def test_an_empty_scene_has_nothing(trained: ModelStore) -> None:
    response = read(trained, PartsRequest(parts=[]))
    assert (response.parts, response.wholes, response.groups) == ([], [], [])


def test_the_parts_of_a_whole_predict_the_same_place(trained: ModelStore) -> None:
    for seed, whole in enumerate(SHAPES.wholes):
        response = read(trained, PartsRequest(parts=scene_parts(whole.parts, random_place(seed))))
        [found] = response.wholes
        votes = torch.tensor([part.votes[found.kind] for part in response.parts if part.whole == 0])
        off = (votes - torch.tensor(found.pose)).norm(dim=-1) / torch.tensor(found.pose[:2]).norm()
        # Small parts know less about the angle of the whole, so not all are near.
        assert off.median() < 0.3, whole.name


@pytest.mark.parametrize("world", [SHAPE_WORLD, FACES], ids=lambda world: world.name)
def test_the_cnn_is_trained_on_one_whole_per_picture(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch of its training, of which eight are drawn here."""
    drawn: list[Scenes] = []
    draw_world = cnn.draw_world
    monkeypatch.setattr(
        cnn, "draw_world", lambda *args, **options: drawn.append(draw_world(*args, **options)) or drawn[-1]
    )
    for step in range(8):
        images, target = cnn.draw_batch(world, 0, step)
        assert torch.equal(images, drawn[-1].images.float() / 255)
        assert (drawn[-1].whole_mask.sum(1) == 1).all()
        assert torch.equal(target, drawn[-1].whole_type[:, 0])


@pytest.mark.parametrize("world", [SHAPE_WORLD, FACES], ids=lambda world: world.name)
def test_the_capsules_learn_from_loose_parts_and_single_wholes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ "Its parts were learned from pictures of loose parts, with their poses; its wholes …"."""
    for stream in capsules.part_streams(world, steps=1):
        scenes = next(iter(stream.epoch(0)))
        assert not scenes.whole_mask.any()
        assert scenes.part_mask.any(1).all()

    class DrawnError(Exception):
        """The first scenes for wholes have been drawn."""

    def draw_some(where: World, kind: str, count: int, **options: Any) -> Scenes:
        scenes = draw_world(where, kind, 20, **options)
        assert (scenes.whole_mask.sum(1) == 1).all()
        raise DrawnError

    draw_world = capsules.draw_world
    monkeypatch.setattr(capsules, "draw_world", draw_some)
    model = PartsCapsNet(num_classes=len(world.wholes), in_channels=1, image_size=64, kinds=len(world.parts))
    with pytest.raises(DrawnError):
        capsules.train_upper(model, world)


def test_the_cnn_for_faces_names_single_wholes(trained: ModelStore) -> None:
    """40 wholes: its scores add up to 1, and the highest is right."""
    wholes = list_shapes("faces").wholes
    for seed in range(40):
        scene = scene_parts(wholes[seed % 4].parts, random_place(seed))
        scores = read(trained, PartsRequest(world="faces", parts=scene)).cnn
        assert scores is not None
        assert sum(scores) == pytest.approx(1, abs=1e-3)
        assert int(np.argmax(scores)) == seed % 4, seed


def test_the_scenes_of_the_test_are_those_of_the_index(trained: ModelStore) -> None:
    """The errors on the cards were measured on them: the ranges are found again in the test set."""
    for network in trained.all():
        tested = network.info().tested
        assert (tested is not None) is (network.data in ("shapes", "faces")), network.id
        if tested is None:
            continue
        options = network.card.facts["data_options"]
        scenes = load(network.data, "test", count=300, **options)
        assert scenes.image_size == (tested.size, tested.size)
        x, y, _, scale = scenes.metadata["whole_numbers"][:, 0].T
        assert tested.scale[0] <= scale.min() + 1e-6
        assert scale.max() <= tested.scale[1] + 1e-6
        assert scale.max() - scale.min() > 0.9 * (tested.scale[1] - tested.scale[0])
        assert torch.hypot(x, y).max() <= tested.offset[1] + 1e-6
