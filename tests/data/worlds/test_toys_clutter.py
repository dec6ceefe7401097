import pytest
import torch

from torchcaps.data import load
from torchcaps.data.worlds.toys.clutter import draw_jitter, draw_shapes, jittered, toy_coverage

FEW = {"elevations": [0, 8], "azimuths": [4], "lightings": [1], "size": 32}

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture(scope="module")
def plain():
    return load("toys", "test", **FEW)


def test_clutter_changes_the_ground_and_not_the_toy(plain) -> None:
    cluttered = load("toys", "test", clutter=True, **FEW)
    cover = toy_coverage(plain, seed=0)
    changed = (cluttered.images.float() - plain.images.float()).abs()
    assert not changed[cover == 1].any(), "no shape is in front of the toy"
    assert changed[cover == 0].mean() > 5
    assert cluttered.labels.equal(plain.labels)
    # Neighboring images have other shapes.
    assert not torch.equal(changed[0], changed[1])


def test_covered_pixels_are_where_the_toy_is(plain) -> None:
    cover = toy_coverage(plain, seed=0)
    assert cover.shape == plain.images.shape
    assert ((cover.mean((1, 2, 3)) > 0.03) & (cover.mean((1, 2, 3)) < 0.8)).all()
    assert not cover[:, :, :2].any(), "toys do not reach the upper border"


def test_jitter_is_the_same_for_both_cameras_and_known(plain) -> None:
    moved = load("toys", "test", jitter=4, **FEW)
    assert moved.images.shape == plain.images.shape
    for name, largest in (("shift_x", 4), ("shift_y", 4), ("rotation", 5), ("luminance", 20)):
        assert 0 < moved.metadata[name].abs().max() <= largest
    assert 0.78 <= moved.metadata["scale"].min() < moved.metadata["scale"].max() <= 1
    left = load("toys", "test", jitter=4, stereo=False, **FEW)
    assert torch.equal(left.images, moved.images[:, :1])


def test_shift_moves_by_pixels_to_the_right_and_down() -> None:
    image = torch.zeros(1, 1, 9, 9)
    image[0, 0, 4, 4] = 1.0
    values = torch.tensor([[2.0, 3.0, 0.0, 1.0, 1.0, 0.0]])
    moved = jittered(image, values, 1.0, colors=False)
    assert moved[0, 0, 7, 6].item() == pytest.approx(1, abs=1e-4)
    assert moved.sum().item() == pytest.approx(1, abs=1e-3)


def test_scale_shrinks_and_contrast_spreads() -> None:
    image = torch.zeros(1, 1, 20, 20)
    image[..., 5:15, 5:15] = 1.0
    small = jittered(image, torch.tensor([[0.0, 0.0, 0.0, 1.0, 0.8, 0.0]]), 1.0, colors=False)
    assert small.sum().item() == pytest.approx(64, rel=0.05)
    bright = jittered(255 * image, torch.tensor([[0.0, 0.0, 10.0, 1.2, 1.0, 0.0]]), 255.0)
    assert bright.min().item() == pytest.approx(127.5 * (1 - 1.2) + 10)
    assert bright.max().item() == pytest.approx(127.5 * (1 + 1.2) + 10)


def test_seed_decides_everything() -> None:
    one, same, other = (torch.Generator().manual_seed(seed) for seed in (0, 0, 1))
    assert torch.equal(draw_shapes(2, 16, one), draw_shapes(2, 16, same))
    assert not torch.equal(draw_shapes(2, 16, same), draw_shapes(2, 16, other))
    assert draw_jitter(3, 0, one)[:, :2].abs().max() == 0


def test_splits_are_changed_in_different_ways() -> None:
    train, test = (load("toys", split, jitter=4, **FEW) for split in ("train", "test"))
    assert not torch.equal(train.metadata["shift_x"], test.metadata["shift_x"])


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="jitter"):
        load("toys", jitter=-1, **FEW)
    with pytest.raises(ValueError, match="clutter"):
        load("toys", clutter="yes", **FEW)
