import itertools
import time

import numpy as np
import pytest
import torch

from torchcaps.data.worlds.toys import CATEGORIES, render, solids
from torchcaps.data.worlds.toys.assembly import build_toy


def difference(one, other):
    return (one.float() - other.float()).abs().mean().item()


@pytest.mark.parametrize("category", CATEGORIES)
def test_every_toy_stands_on_the_ground_inside_its_ball(category):
    for instance in range(10):
        toy = build_toy(category, instance)
        lowest = min(-part.support((0, 0, -1)) for part in toy.solids)
        assert lowest == pytest.approx(0, abs=1e-9)
        for way in np.eye(3):
            for sign in (-1, 1):
                reach = max(part.support(sign * way) for part in toy.solids) - sign * way @ toy.center
                assert reach <= 1 + 1e-9


def test_the_complete_toy_is_visible():
    for category, azimuth in itertools.product(CATEGORIES, (0, 50, 110)):
        picture = render(category, 3, azimuth, 30, 0, shadows=False)
        rim = torch.cat([picture[:, 0], picture[:, -1], picture[:, :, 0], picture[:, :, -1]], dim=1)
        assert (rim == rim[0, 0]).all()


def test_small_rotations_change_little_and_large_ones_much():
    for category in CATEGORIES:
        start = render(category, 1, 100.0, 40.0, 0)
        assert difference(start, render(category, 1, 100.2, 40.0, 0)) < 1.0
        assert difference(start, render(category, 1, 100.0, 40.2, 0)) < 1.0
        assert difference(start, render(category, 1, 160.0, 40.0, 0)) > 3.0


def test_azimuth_is_a_circle():
    assert difference(render("car", 2, 13.0, 50, 3), render("car", 2, 13.0 + 360, 50, 3)) < 0.01


def test_any_viewpoint_can_be_rendered():
    for elevation, azimuth in itertools.product((0, 5, 89.9, 90), (-725.5, 0, 33)):
        assert render("plane", 0, azimuth, elevation, 1, size=24).float().std() > 1


def test_instances_and_categories_differ_measurably():
    pictures = {
        (category, instance): render(category, instance, 40, 35, 0, shadows=False)
        for category in CATEGORIES
        for instance in range(10)
    }
    assert min(difference(a, b) for a, b in itertools.combinations(pictures.values(), 2)) > 2.0


def test_instances_differ_in_their_parts_too():
    for category in CATEGORIES:
        kinds = {tuple(sorted(part.shape for part in solids(category, instance))) for instance in range(10)}
        assert len(kinds) >= 8


def test_the_two_cameras_differ_by_depth():
    both = render("truck", 1, 40, 35, 0)
    assert torch.equal(both[:1], render("truck", 1, 40, 35, 0, eye="left"))
    assert torch.equal(both[1:], render("truck", 1, 40, 35, 0, eye="right"))
    assert difference(both[0], both[1]) > 2


def test_lightings_differ_and_lamps_stay_when_the_toy_turns():
    lit = [render("animal", 4, 40, 40, lighting) for lighting in range(6)]
    assert min(difference(a, b) for a, b in itertools.combinations(lit, 2)) > 3
    ball = [render("human", 6, azimuth, 30, 0, shadows=False).float().mean() for azimuth in (0, 120, 240)]
    assert max(ball) - min(ball) < 4


def test_shadows_only_darken():
    for lighting in range(6):
        without = render("human", 9, 70, 45, lighting, shadows=False).int()
        cast = render("human", 9, 70, 45, lighting, shadows=True).int()
        assert (cast <= without + 1).all()
        assert (cast < without - 10).float().mean() > 0.01


def test_unshadowed_surfaces_do_not_shade_themselves():
    """The roof of a box truck faces the lamp above it: no speckles from its own shadow map."""
    without = render("truck", 6, 40, 60, 2, size=96, shadows=False).int()
    cast = render("truck", 6, 40, 60, 2, size=96, shadows=True).int()
    roof = (slice(None), slice(40, 46), slice(46, 54))
    assert (without[roof] - cast[roof]).abs().max() <= 2


def test_the_seed_changes_the_toy():
    assert torch.equal(render("car", 0, 10, 40, 0, seed=5), render("car", 0, 10, 40, 0, seed=5))
    assert difference(render("car", 0, 10, 40, 0, seed=5), render("car", 0, 10, 40, 0, seed=6)) > 0.5


def test_rendering_is_fast_enough_for_interaction():
    render("truck", 3, 0, 40, 0)
    taken = []
    for azimuth in range(20):
        start = time.process_time()
        render("truck", 3, azimuth, 40, 0)
        taken.append(time.process_time() - start)
    assert sorted(taken)[10] < 0.05


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"category": "plain"}, "did you mean 'plane'"),
        ({"category": 5}, "unknown category"),
        ({"instance": -1}, "instance must be at least 0"),
        ({"lighting": 6}, "lighting must be 0 to 5"),
        ({"elevation": 95}, "elevation must be 0 to 90"),
        ({"azimuth": float("nan")}, "finite"),
        ({"size": 0}, "at least 1 pixel"),
        ({"eye": "middle"}, "unknown eye"),
    ],
)
def test_wrong_arguments_are_named(change, message):
    right = {"category": "car", "instance": 0, "azimuth": 0, "elevation": 40, "lighting": 0}
    with pytest.raises(ValueError, match=message):
        render(**{**right, **change})
