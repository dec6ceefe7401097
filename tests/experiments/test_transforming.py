import math
import signal
import time
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.study import Study, StudyStopped
from torchcaps.experiments.listing import find_claim
from torchcaps.experiments.transforming import (
    RATES,
    load_images,
    load_toys,
    measure_coordinates,
    measure_errors,
    train_networks,
)
from torchcaps.experiments.transforming.pairs import (
    MovedPair,
    random_rotations,
    random_shifts,
    random_turns,
    rigid_matrices,
    shift_images,
    transform_images,
    turn_matrices,
)
from torchcaps.experiments.transforming.training import train_on_pairs
from torchcaps.experiments.transforming.verdicts import CAPSULES, EXACT, PLAIN, UNMOVED, add_verdicts
from torchcaps.models.transforming_autoencoder import PlainAutoencoder, TransformingAutoencoder


def dots(count: int = 6, size: int = 12) -> torch.Tensor:
    """Images that are empty except for the center, so that moving loses no pixels."""
    images = torch.zeros(count, 1, size, size)
    images[:, :, 4:-4, 4:-4] = torch.rand(count, 1, size - 8, size - 8)
    return images


def test_shift_by_whole_pixels_moves_pixels() -> None:
    images = dots()
    moved = shift_images(images, torch.tensor([[2.0, -3.0]]).expand(len(images), 2))
    torch.testing.assert_close(moved, images.roll((-3, 2), (2, 3)), atol=1e-5, rtol=0)


def test_change_of_a_shifted_pair_leads_from_before_to_after() -> None:
    images = dots()
    pair = random_shifts(images, 2, torch.Generator().manual_seed(1))
    torch.testing.assert_close(shift_images(pair.before, pair.change), pair.after, atol=1e-5, rtol=0)
    assert pair.change.abs().max() > 0


def test_rotation_by_90_degrees_moves_right_to_down() -> None:
    matrix = rigid_matrices(torch.tensor([[1.0, 0.0, 0.0]]), math.pi / 2, 0.0)
    right = torch.tensor([1.0, 0.0, 1.0])
    torch.testing.assert_close(matrix[0] @ right, torch.tensor([0.0, 1.0, 1.0]), atol=1e-6, rtol=0)
    image = torch.zeros(1, 1, 5, 5)
    image[0, 0, 2, 4] = 1  # y points down, so a rotation from x to y is clockwise
    expected = torch.zeros(5, 5)
    expected[4, 2] = 1
    torch.testing.assert_close(transform_images(image, matrix)[0, 0], expected, atol=1e-5, rtol=0)


def test_change_of_a_rotated_pair_leads_from_before_to_after() -> None:
    y, x = torch.meshgrid(torch.linspace(-1, 1, 41), torch.linspace(-1, 1, 41), indexing="ij")
    smooth = torch.exp(-((x - 0.2) ** 2 * 20 + (y + 0.1) ** 2 * 8))[None, None].repeat(4, 1, 1, 1)
    pair = random_rotations(smooth, math.radians(30), 0.1, torch.Generator().manual_seed(0))
    moved = transform_images(pair.before, pair.change)
    assert float((moved - pair.after).square().sum() / pair.after.square().sum()) < 1e-3
    # a rotation keeps lengths
    linear = pair.change[:, :2, :2]
    torch.testing.assert_close(linear @ linear.mT, torch.eye(2).expand(4, 2, 2), atol=1e-5, rtol=0)


def test_turned_pair_has_the_views_of_its_turn() -> None:
    """Each view is filled with its own number, so that the turn can be read from the images."""
    views = torch.arange(18.0).view(1, 18, 1, 1, 1).expand(40, 18, 2, 3, 3)
    pair = random_turns(views, 2, torch.Generator().manual_seed(0))
    steps = (pair.after - pair.before)[:, 0, 0, 0]
    steps = (steps + 9) % 18 - 9
    assert set(steps.int().tolist()) == {-2, -1, 0, 1, 2}
    torch.testing.assert_close(pair.change, turn_matrices(math.radians(20) * steps))


def test_turns_add_up_and_keep_the_vertical_axis() -> None:
    one, two, both = (turn_matrices(torch.tensor([angle])) for angle in (0.3, 0.5, 0.8))
    torch.testing.assert_close(one @ two, both)
    torch.testing.assert_close(one[0] @ torch.tensor([0.0, 1.0, 0.0]), torch.tensor([0.0, 1.0, 0.0]))


def test_views_of_a_toy_are_of_one_toy(tmp_path: Path) -> None:
    views = load_toys("train", quick=True)
    assert views.shape == (25, 18, 2, 16, 16)
    # A toy from 20° farther is more like itself than another toy from the same side.
    own = (views - views.roll(1, 1)).square().mean()
    other = (views - views.roll(1, 0)).square().mean()
    assert own < other


@pytest.mark.parametrize("kind", ["shift", "turn"])
def test_rates_are_chosen_on_images_of_no_other_part(tmp_path: Path, kind: str) -> None:
    study = Study(tmp_path, quick=True)
    train, validation, test = (load_images(study, kind, part) for part in ("train", "validation", "test"))
    known = [{each.numpy().tobytes() for each in part} for part in (train, validation, test)]
    assert len(validation) > 1
    assert sum(map(len, known)) == len(set.union(*known))


def test_every_network_has_the_rate_that_draws_validation_images_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(
        study: Study, name: str, model: torch.nn.Module, *data: object, lr: float, **rest: object
    ) -> None:
        # Capsules are good with the second rate, the other network with the first one.
        good = (lr == RATES[1]) == isinstance(model, TransformingAutoencoder)
        model.forward = lambda images, change: Drawing(target if good else 0 * target)  # type: ignore[assignment]

    class Drawing(NamedTuple):
        images: torch.Tensor

    study = Study(tmp_path, quick=False)
    digits = load_images(Study(tmp_path, quick=True), "shift", "train")
    monkeypatch.setattr("torchcaps.experiments.transforming.load_images", lambda *_: digits)
    target = random_shifts(digits, 2, torch.Generator().manual_seed(2)).after
    monkeypatch.setattr("torchcaps.experiments.transforming.train_on_pairs", train)
    train_networks(study, "shift")
    assert study.numbers == {f"lr.shift.{CAPSULES}": RATES[1], f"lr.shift.{PLAIN}": RATES[0]}


class Oracle(TransformingAutoencoder):
    """The pose of its capsules is the center of the image's brightness, or constant."""

    exact = True

    def look(self, images: torch.Tensor) -> object:
        capsules = super().look(images)
        x = torch.arange(images.shape[3], dtype=images.dtype)
        brightness = images.sum((1, 2, 3)).clamp(min=1e-9)
        center = torch.stack([(images.sum((1, 2)) * x).sum(1), (images.sum((1, 3)) * x).sum(1)], dim=1)
        pose = (center / brightness[:, None])[:, None].expand(-1, self.count, -1)
        return capsules._replace(pose=pose if self.exact else torch.zeros_like(pose))


@pytest.mark.parametrize(("exact", "r_squared"), [(True, 1.0), (False, 0.0)])
def test_r_squared_is_one_for_true_coordinates_and_zero_for_constant_ones(
    exact: bool, r_squared: float
) -> None:
    model = Oracle((1, 12, 12), capsules=3)
    model.exact = exact
    pair = random_shifts(dots(20), 2, torch.Generator().manual_seed(0))
    assert measure_coordinates(model, pair)["r_squared"] == pytest.approx([r_squared] * 3, abs=1e-4)


def test_error_is_large_for_the_input_and_zero_for_moved_pixels() -> None:
    pair = random_shifts(dots(20), 2, torch.Generator().manual_seed(0))
    errors = measure_errors("shift", {}, pair)
    assert errors[UNMOVED]["moved"] > 20
    assert errors[EXACT]["moved"] < 1e-6


def test_stopped_training_continues_to_the_same_weights(tmp_path: Path) -> None:
    def network() -> TransformingAutoencoder:
        torch.manual_seed(0)
        return TransformingAutoencoder((1, 12, 12), capsules=3, recognition=4, generation=4)

    def train(folder: Path, steps: int, deadline: float | None = None) -> TransformingAutoencoder:
        study, model = Study(folder, quick=True, deadline=deadline), network()
        train_on_pairs(
            study, "one", model, images, lambda some, g: random_shifts(some, 2, g), steps=steps, batch_size=4
        )
        return model

    images = dots()
    straight = train(tmp_path / "straight", 5)
    with pytest.raises(StudyStopped):
        train(tmp_path / "parts", 5, deadline=time.monotonic() - 1)
    continued = train(tmp_path / "parts", 5)
    loaded = train(tmp_path / "parts", 5)
    for name, weights in straight.state_dict().items():
        assert torch.equal(continued.state_dict()[name], weights), name
        assert torch.equal(loaded.state_dict()[name], weights), name


def test_interrupted_training_is_saved(tmp_path: Path) -> None:
    """Ctrl-C during a step finishes and saves the step, as in every other training."""

    def interrupt(images: torch.Tensor, generator: torch.Generator) -> MovedPair:
        signal.raise_signal(signal.SIGINT)
        return random_shifts(images, 2, generator)

    model = TransformingAutoencoder((1, 12, 12), capsules=3, recognition=4, generation=4)
    with pytest.raises(StudyStopped, match=r"stopped \(interrupted\) while training one") as stopped:
        train_on_pairs(Study(tmp_path, quick=True), "one", model, dots(), interrupt, steps=5, batch_size=4)
    assert stopped.value.status == "interrupted"
    assert (tmp_path / "trained/one/state.safetensors").is_file()


def test_settings_are_recorded_before_training(tmp_path: Path) -> None:
    study = Study(tmp_path, quick=True, deadline=time.monotonic() - 1)
    with pytest.raises(StudyStopped):
        train_networks(study, "affine")
    (settings,) = study.recipes.values()
    assert (settings["images"], settings["steps"], settings["lr"]) == (1298, 1500, 3e-3)
    assert settings["largest"] == {"angle": math.radians(30), "shift": 0.1}


def test_network_without_capsules_uses_the_change() -> None:
    model = PlainAutoencoder((1, 12, 12), 8, 6, 8, 2)
    images = torch.rand(2, 1, 12, 12)
    still, moved = model(images, torch.zeros(2, 2)), model(images, torch.ones(2, 2))
    assert still.images.shape == images.shape
    assert not torch.allclose(still.images, moved.images)


@pytest.mark.parametrize(
    ("capsules", "plain", "r_squared", "holds", "words"),
    [
        ((10, 20), (15, 25), (0.8, 0.7), [True, True], ["is worse for shifts", "and worse for rotations"]),
        (
            (10, 20),
            (15, 15),
            (0.8, 0.2),
            [None, None],
            ["is worse for shifts", "and not worse for rotations"],
        ),
        (
            (10, 20),
            (5, 5),
            (0.2, 0.2),
            [None, False],
            ["is not worse for shifts", "and not worse for rotations"],
        ),
        ((60, 60), (70, 70), (0.2, 0.2), [False, True], ["is worse for shifts"]),
    ],
)
def test_verdicts_require_drawings_and_coordinates(
    tmp_path: Path,
    capsules: tuple,
    plain: tuple,
    r_squared: tuple,
    holds: list[bool | None],
    words: list[str],
) -> None:
    study = Study(tmp_path, quick=True)
    kinds = ("shift", "affine", "turn")
    errors = {
        kind: {CAPSULES: {"moved": one}, PLAIN: {"moved": other}, UNMOVED: {"moved": 100.0}}
        for kind, one, other in zip(kinds, (*capsules, 80), (*plain, 60))
    }
    coordinates = {
        kind: {"activation": [1.0], "r_squared": [each]} for kind, each in zip(kinds, (*r_squared, 0.7))
    }
    add_verdicts(study, errors, coordinates)
    verdicts = study.results()["verdicts"]
    # Turns have an answer of their own: the poses follow, and the drawings are bad.
    assert [each["holds"] for each in verdicts] == [*holds, None]
    assert [each for each in words if each not in verdicts[1]["sentence"]] == []


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(find_claim("transforming"), tmp_path, quick=True)
    numbers = result["numbers"]
    assert numbers[f"shift.{CAPSULES}.moved"] < numbers[f"shift.{UNMOVED}.moved"] / 2
    assert numbers["shift.best coordinates"] > 0.8
    assert numbers["shift.coordinates"] > 0.2
    assert result["verdicts"][0]["holds"] is not False
    assert numbers[f"affine.{CAPSULES}.moved"] < numbers[f"affine.{UNMOVED}.moved"] / 2
    for name in ("examples.png", "examples.svg", "coordinates.png", "coordinates.svg", "report.html"):
        assert (tmp_path / name).stat().st_size > 1000
    assert (tmp_path / "result.json").is_file()
