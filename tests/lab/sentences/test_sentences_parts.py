"""Sentences of Parts and wholes: each holds for 40 of 40 inputs."""

import numpy as np
import pytest

from support.lab_digits import COUNT
from support.lab_scenes import random_place, scene_parts
from torchcaps.data.worlds.faces import FACES
from torchcaps.data.worlds.flat import World
from torchcaps.data.worlds.flat.similarity import compose
from torchcaps.data.worlds.shapes import SHAPES
from torchcaps.lab import schemas
from torchcaps.lab.model_store import ModelStore
from torchcaps.lab.views import parts


def scrambles() -> list[tuple[str, list[schemas.PlacedPart]]]:
    """The 40 scrambled wholes of the page."""
    shapes = parts.list_shapes()
    found = [(whole.name, wrong) for whole in shapes.wholes for wrong in whole.scrambled]
    assert len(found) == COUNT
    return found


def test_scramble_puts_the_parts_together_in_a_wrong_way() -> None:
    """No two parts stand as they do in any whole."""
    for name, wrong in scrambles():
        kinds = np.array([part.kind for part in wrong])
        assert SHAPES.relation_error(kinds, np.array([part.pose for part in wrong])) >= SHAPES.tolerance, name


def test_a_whole_is_found_and_a_scrambled_one_is_not(store: ModelStore) -> None:
    shapes = parts.list_shapes()
    kept = gone = 0
    for seed, (name, wrong) in enumerate(scrambles()):
        right = next(whole.parts for whole in shapes.wholes if whole.name == name)
        before, after = (
            parts.read(store, schemas.PartsRequest(parts=scene_parts(each, random_place(seed)))).wholes
            for each in (right, wrong)
        )
        kept += [whole.name for whole in before] == [name]
        gone += not after
    assert (kept, gone) == (COUNT, COUNT)


@pytest.mark.parametrize("world", [SHAPES, FACES])
def test_what_the_page_draws_is_what_the_world_has(world: World) -> None:
    """The places of parts in the page's wholes are those of the data set."""
    for row, whole in enumerate(parts.list_shapes(world.name).wholes):
        filled = world.whole.filled[row]
        expected = compose(np.array([1.0, 0, 0, 0]), world.whole.place[row, filled])
        np.testing.assert_allclose([part.pose for part in whole.parts], expected, atol=1e-4)


def test_which_wholes_are_made_of_the_same_parts() -> None:
    """ "House and boat, fish and ice cream, truck and robot …", "Two eyes, a nose and a mouth make …"."""

    def used(world: World) -> dict[str, list[int]]:
        shapes = parts.list_shapes(world.name).wholes
        return {whole.name: sorted(part.kind for part in whole.parts) for whole in shapes}

    shapes, faces = used(SHAPES), used(FACES)
    for one, other in (("house", "boat"), ("fish", "ice cream"), ("truck", "robot")):
        assert shapes[one] == shapes[other]
    eyes_nose_mouth = [0, 0, 1, 2]
    assert FACES.part_names == ("eye", "nose", "mouth")
    assert faces == dict.fromkeys(("face", "bicycle", "boat", "snowman"), eyes_nose_mouth)


def test_the_scores_of_the_cnn_for_wholes_add_up_to_1(store: ModelStore) -> None:
    """ "Its scores add up to 1 (softmax), so it always names a whole"; it names intact wholes right."""
    right = 0
    for seed, (name, wrong) in enumerate(scrambles()):
        whole = next(each for each in parts.list_shapes().wholes if each.name == name)
        scores = [
            parts.read(store, schemas.PartsRequest(parts=scene_parts(each, random_place(seed)))).cnn
            for each in (whole.parts, wrong)
        ]
        np.testing.assert_allclose(np.sum(scores, 1), 1, atol=1e-3)
        right += int(np.argmax(scores[0])) == SHAPES.whole.names.index(name)
    assert right == COUNT


def test_a_face_is_found_and_a_scrambled_one_is_not(store: ModelStore) -> None:
    """ "Scrambled, they make none of them": the four wholes of faces, five scrambles each, at two places."""
    kept = gone = 0
    for number in range(COUNT):
        whole = parts.list_shapes("faces").wholes[number % 4]
        place = random_place(number)
        before, after = (
            parts.read(store, schemas.PartsRequest(world="faces", parts=scene_parts(each, place))).wholes
            for each in (whole.parts, whole.scrambled[number // 4 % 5])
        )
        kept += [found.name for found in before] == [whole.name]
        gone += not after
    assert (kept, gone) == (COUNT, COUNT)


@pytest.mark.parametrize("world", [SHAPES, FACES], ids=lambda world: world.name)
def test_dark_marks_show_which_way_up_a_part_is(world: World) -> None:
    """Every part looks different when it is turned by half a turn, also one with a symmetric outline."""
    for kind in range(len(world.parts)):
        upright, turned = (
            parts.draw_parts([schemas.ScenePart(kind=kind, x=0, y=0, angle=angle, scale=0.5)], world)
            for angle in (0, 180)
        )
        assert float((upright - turned).abs().max()) > 0.2, world.parts[kind].name


def test_the_wholes_that_parts_predict_agree(store: ModelStore) -> None:
    """ "it finds the parts, and each part predicts its whole", "the wholes that they predict agree"."""
    close = 0
    for seed, (name, _) in enumerate(scrambles()):
        whole = next(each for each in parts.list_shapes().wholes if each.name == name)
        answer = parts.read(store, schemas.PartsRequest(parts=scene_parts(whole.parts, random_place(seed))))
        members = [part for part in answer.parts if part.whole == 0]
        predicted = np.array([part.votes[answer.wholes[0].kind] for part in members])
        apart = np.abs(predicted - np.array(answer.wholes[0].pose)).max()
        close += len(members) >= 2 and apart < 0.25
    assert close == COUNT


@pytest.mark.parametrize("world", [SHAPES, FACES], ids=lambda world: world.name)
def test_a_type_is_found_from_the_line_on(store: ModelStore, world: World) -> None:
    """ "From the line, 0.5, on it is found", and "a whole can have a higher presence than … its parts"."""
    wholes = parts.list_shapes(world.name).wholes
    marked = surer = 0
    for number in range(COUNT):
        whole = wholes[number % len(wholes)]
        for placed in (whole.parts, whole.scrambled[number // len(wholes) % 5]):
            scene = scene_parts(placed, random_place(number))
            answer = parts.read(store, schemas.PartsRequest(world=world.name, parts=scene))  # type: ignore[arg-type]
            found = {each.kind: each.presence for each in answer.wholes}
            above = {kind: each for kind, each in enumerate(answer.presence) if each >= answer.threshold}
            marked += above == pytest.approx(found, abs=1e-3)
            if placed is whole.parts:
                members = [part.presence for part in answer.parts if part.whole == 0]
                surer += answer.wholes[0].presence > max(members)
    assert (marked, surer) == (2 * COUNT, COUNT)


@pytest.mark.parametrize("world", [SHAPES, FACES], ids=lambda world: world.name)
def test_what_has_size_1_fits_into_the_picture(world: World) -> None:
    """ "Size 1 fits into the picture", whose coordinates go from -1 to 1: upright parts and all wholes."""
    shapes = parts.list_shapes(world.name)
    outlines = [np.array(part.outline) for part in shapes.parts]
    for outline in outlines:
        assert np.abs(outline).max() <= 1 + 1e-6
    for whole in shapes.wholes:
        for part in whole.parts:
            a, b, x, y = part.pose
            turned = outlines[part.kind] @ np.array([[a, b], [-b, a]]) + (x, y)
            assert np.abs(turned).max() <= 1 + 1e-6, whole.name


def test_a_house_and_a_boat_make_a_harbor(store: ModelStore) -> None:
    """ "a house with a boat on its right is a harbor": in the table of the world, and in the first scene."""
    table = SHAPES.group
    row = table.names.index("harbor")
    members = [SHAPES.whole.names[kind] for kind in table.member[row][table.filled[row]]]
    assert members == ["house", "boat"]
    (left, low, *_), (right, height, *_) = table.place[row][table.filled[row]][:, 2:]
    assert left < right
    assert low == pytest.approx(height)
    shapes = parts.list_shapes().wholes
    scene = scene_parts(shapes[0].parts, (-0.48, 0, 0, 0.5)) + scene_parts(shapes[1].parts, (0.42, 0, 0, 0.5))
    found = parts.read(store, schemas.PartsRequest(parts=scene))
    assert [group.name for group in found.groups] == ["harbor"]


def test_a_loose_part_points_to_the_whole_it_was_taken_from(store: ModelStore) -> None:
    """ "Lines from parts of no whole: to where each of them predicts the whole that it was taken from"."""
    wholes = parts.list_shapes().wholes
    slots = [
        (kind, slot)
        for kind, whole in enumerate(wholes)
        for slot, part in enumerate(whole.parts)
        if [each.kind for each in whole.parts].count(part.kind) == 1  # a part with one role
    ]
    right = 0
    for number in range(COUNT):
        kind, slot = slots[number % len(slots)]
        place = random_place(number)
        answer = parts.read(store, schemas.PartsRequest(parts=[scene_parts(wholes[kind].parts, place)[slot]]))
        found = max(answer.parts, key=lambda part: part.presence)
        away = np.hypot(*(np.array(found.votes[kind][2:]) - place[:2]))
        right += found.whole < 0 and away < 0.35 * place[3]
    assert right == COUNT
