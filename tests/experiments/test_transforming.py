import math
import time
from pathlib import Path

import pytest
import torch

from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.study import Study, StudyStopped
from torchcaps.experiments.listing import find_claim
from torchcaps.experiments.transforming import (
    CAPSULE,
    COPY,
    PLAIN,
    explained,
    give_verdicts,
    measure,
    networks,
)
from torchcaps.experiments.transforming.pairs import (
    draw_shifts,
    draw_turns,
    learn_to_move,
    placement,
    shifted,
    warped,
)
from torchcaps.models.transforming_autoencoder import PlainAutoencoder, TransformingAutoencoder


def dots(count: int = 6, size: int = 12) -> torch.Tensor:
    """Images with ink in the middle only, so that nothing is lost at the borders."""
    images = torch.zeros(count, 1, size, size)
    images[:, :, 4:-4, 4:-4] = torch.rand(count, 1, size - 8, size - 8)
    return images


def test_a_shift_by_whole_pixels_moves_pixels() -> None:
    images = dots()
    moved = shifted(images, torch.tensor([[2.0, -3.0]]).expand(len(images), 2))
    torch.testing.assert_close(moved, images.roll((-3, 2), (2, 3)), atol=1e-5, rtol=0)


def test_the_change_of_a_shifted_pair_leads_from_one_to_the_other() -> None:
    images = dots()
    pair = draw_shifts(images, 2, torch.Generator().manual_seed(1))
    torch.testing.assert_close(shifted(pair.before, pair.change), pair.after, atol=1e-5, rtol=0)
    assert pair.change.abs().max() > 0


def test_a_quarter_turn_goes_from_right_to_down() -> None:
    matrix = placement(torch.tensor([[1.0, 0.0, 0.0]]), math.pi / 2, 0.0)
    right = torch.tensor([1.0, 0.0, 1.0])
    torch.testing.assert_close(matrix[0] @ right, torch.tensor([0.0, 1.0, 1.0]), atol=1e-6, rtol=0)
    image = torch.zeros(1, 1, 5, 5)
    image[0, 0, 2, 4] = 1  # y points down, so a turn from x to y is clockwise to the eye
    expected = torch.zeros(5, 5)
    expected[4, 2] = 1
    torch.testing.assert_close(warped(image, matrix)[0, 0], expected, atol=1e-5, rtol=0)


def test_the_change_of_a_turned_pair_is_the_matrix_between() -> None:
    y, x = torch.meshgrid(torch.linspace(-1, 1, 41), torch.linspace(-1, 1, 41), indexing="ij")
    smooth = torch.exp(-((x - 0.2) ** 2 * 20 + (y + 0.1) ** 2 * 8))[None, None].repeat(4, 1, 1, 1)
    pair = draw_turns(smooth, math.radians(30), 0.1, torch.Generator().manual_seed(0))
    again = warped(pair.before, pair.change)
    assert float((again - pair.after).square().sum() / pair.after.square().sum()) < 1e-3
    # rigid: lengths stay
    linear = pair.change[:, :2, :2]
    torch.testing.assert_close(linear @ linear.mT, torch.eye(2).expand(4, 2, 2), atol=1e-5, rtol=0)


class Oracle(TransformingAutoencoder):
    """Its capsules say the center of the ink, or always the same."""

    follows = True

    def look(self, images: torch.Tensor) -> object:
        seen = super().look(images)
        x = torch.arange(images.shape[3], dtype=images.dtype)
        ink = images.sum((1, 2, 3)).clamp(min=1e-9)
        center = torch.stack([(images.sum((1, 2)) * x).sum(1), (images.sum((1, 3)) * x).sum(1)], dim=1)
        pose = (center / ink[:, None])[:, None].expand(-1, self.count, -1)
        return seen._replace(pose=pose if self.follows else torch.zeros_like(pose))


@pytest.mark.parametrize(("follows", "share"), [(True, 1.0), (False, 0.0)])
def test_explained_is_one_for_true_coordinates_and_zero_for_none(follows: bool, share: float) -> None:
    model = Oracle((1, 12, 12), capsules=3)
    model.follows = follows
    pair = draw_shifts(dots(20), 2, torch.Generator().manual_seed(0))
    assert explained(model, pair)["share"] == pytest.approx([share] * 3, abs=1e-4)


def test_measure_knows_that_a_copy_is_wrong_and_moved_pixels_are_right() -> None:
    pair = draw_shifts(dots(20), 2, torch.Generator().manual_seed(0))
    found = measure("shift", {}, pair)
    assert found[COPY]["moved"] > 20
    assert found["its pixels moved"]["moved"] < 1e-6


def test_learning_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    def network() -> TransformingAutoencoder:
        torch.manual_seed(0)
        return TransformingAutoencoder((1, 12, 12), capsules=3, recognition=4, generation=4)

    def learn(folder: Path, steps: int, deadline: float | None = None) -> TransformingAutoencoder:
        study, model = Study(folder, quick=True, deadline=deadline), network()
        learn_to_move(
            study, "one", model, images, lambda some, g: draw_shifts(some, 2, g), steps=steps, batch_size=4
        )
        return model

    images = dots()
    whole = learn(tmp_path / "whole", 5)
    with pytest.raises(StudyStopped):
        learn(tmp_path / "parts", 5, deadline=time.monotonic() - 1)
    continued = learn(tmp_path / "parts", 5)
    taken = learn(tmp_path / "parts", 5)
    for name, weights in whole.state_dict().items():
        assert torch.equal(continued.state_dict()[name], weights), name
        assert torch.equal(taken.state_dict()[name], weights), name


def test_how_networks_are_trained_is_written_down_before(tmp_path: Path) -> None:
    study = Study(tmp_path, quick=True, deadline=time.monotonic() - 1)
    with pytest.raises(StudyStopped):
        networks(study, "affine", dots())
    (written,) = study.recipes.values()
    assert (written["images"], written["steps"], written["lr"]) == (6, 1500, 3e-3)
    assert written["most"] == {"turn": math.radians(30), "shift": 0.1}


def test_the_network_without_capsules_sees_the_change() -> None:
    model = PlainAutoencoder((1, 12, 12), 8, 6, 8, 2)
    images = torch.rand(2, 1, 12, 12)
    still, moved = model(images, torch.zeros(2, 2)), model(images, torch.ones(2, 2))
    assert still.images.shape == images.shape
    assert not torch.allclose(still.images, moved.images)


@pytest.mark.parametrize(
    ("capsules", "plain", "share", "holds", "words"),
    [
        ((10, 20), (15, 25), (0.8, 0.7), [True, True], ["is worse on shifts", "and worse on turns"]),
        ((10, 20), (15, 15), (0.8, 0.2), [None, None], ["is worse on shifts", "and no worse on turns"]),
        ((10, 20), (5, 5), (0.2, 0.2), [None, False], ["is no worse on shifts", "and no worse on turns"]),
        ((60, 60), (70, 70), (0.2, 0.2), [False, True], ["is worse on shifts"]),
    ],
)
def test_verdicts_ask_for_drawings_and_for_coordinates(
    tmp_path: Path, capsules: tuple, plain: tuple, share: tuple, holds: list[bool | None], words: list[str]
) -> None:
    study = Study(tmp_path, quick=True)
    found = {
        kind: {CAPSULE: {"moved": one}, PLAIN: {"moved": other}, COPY: {"moved": 100.0}}
        for kind, one, other in zip(("shift", "affine"), capsules, plain)
    }
    laws = {kind: {"present": [1.0], "share": [each]} for kind, each in zip(("shift", "affine"), share)}
    give_verdicts(study, found, laws)
    verdicts = study.results()["verdicts"]
    assert [each["holds"] for each in verdicts] == holds
    assert [each for each in words if each not in verdicts[1]["sentence"]] == []


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(find_claim("transforming"), tmp_path, quick=True)
    numbers = result["numbers"]
    assert result["recipes"]["affine-auto-encoder_without_capsules"]["lr"] == 1e-3
    assert numbers[f"shift.{CAPSULE}.moved"] < numbers[f"shift.{COPY}.moved"] / 2
    assert numbers["shift.best coordinates"] > 0.8
    assert numbers["shift.coordinates"] > 0.2
    assert result["verdicts"][0]["holds"] is not False
    assert numbers[f"affine.{CAPSULE}.moved"] < numbers[f"affine.{COPY}.moved"] / 2
    for name in ("examples.png", "examples.svg", "coordinates.png", "coordinates.svg", "report.html"):
        assert (tmp_path / name).stat().st_size > 1000
    assert (tmp_path / "result.json").is_file()
