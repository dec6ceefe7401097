import itertools
import time

import numpy as np
import pytest
import torch

from torchcaps.data import load
from torchcaps.data.formats.matrix import read_matrix
from torchcaps.data.worlds.toys import files, loader, render
from torchcaps.data.worlds.toys.assembly import INSTANCES, solids
from torchcaps.data.worlds.toys.files import find_or_render, read_files, stem, variant, write_files
from torchcaps.data.worlds.toys.rendering import render_table
from torchcaps.data.worlds.toys.table import (
    AZIMUTHS,
    Table,
    azimuth_degrees,
    elevation_degrees,
    instances,
    table,
)
from torchcaps.errors import DataError

FEW = {"elevations": [0, 8], "azimuths": [0, 18], "lightings": [1]}


pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture
def quick_renderer(monkeypatch):
    """Pictures of the right shape without the minute that the real ones take; gives the list of calls."""
    calls = []

    def stand_in(rows, *, size, shadows, seed, workers=None):
        calls.append((len(rows.category), size, shadows, seed))
        value = rows.info @ np.array([7, 5, 3, 1]) + rows.category
        return np.broadcast_to(
            value.astype(np.uint8)[:, None, None, None], (len(value), 2, size, size)
        ).copy()

    monkeypatch.setattr(files, "render_table", stand_in)
    monkeypatch.setattr(loader, "render_table", stand_in)
    return calls


def test_the_table_is_that_of_smallnorb():
    train, test = table("train"), table("test")
    for rows, toys in ((train, {4, 6, 7, 8, 9}), (test, {0, 1, 2, 3, 5})):
        assert rows.category.shape == (24300,)
        assert rows.info.shape == (24300, 4)
        assert rows.info.dtype == rows.category.dtype == np.int32
        assert (rows.category == np.arange(24300) % 5).all()
        assert set(rows.info[:, 0].tolist()) == toys
        assert set(rows.info[:, 1].tolist()) == set(range(9))
        assert set(rows.info[:, 2].tolist()) == set(range(0, 36, 2))
        assert set(rows.info[:, 3].tolist()) == set(range(6))
        everything = np.concatenate([rows.category[:, None], rows.info], axis=1)
        assert len(np.unique(everything, axis=0)) == 24300


def test_more_toys_are_new_ones_in_each_split():
    train, test = instances("train", 25), instances("test", 25)
    assert len(train) == 25
    assert len(test) == 10
    assert not set(train) & set(test)
    assert min(train + test) == INSTANCES  # none of the ten designs themselves
    assert instances("test", 40) == test  # results with other numbers of training toys can be compared
    designs = [{toy // 2 % INSTANCES for toy in toys} for toys in (train, test)]
    assert designs == [set(range(INSTANCES))] * 2


def test_varied_toys_keep_their_parts_and_their_symmetry():
    for category, toy in (("car", 13), ("plane", 31)):
        design, varied = solids(category, toy // 2 % INSTANCES), solids(category, toy)
        assert [part.shape for part in varied] == [part.shape for part in design]
        sides = [sum(sorted(abs(part.center[1]) for part in toy)) for toy in (design, varied)]
        assert abs(sides[0] - sides[1]) > 1e-3  # other proportions
    # Wheels come in pairs; the shift of the toy moves both by the same amount.
    wheels = [part for part in solids("car", 14) if part.shape == "cylinder"]
    middle = sum(part.center[1] for part in wheels) / len(wheels)
    left, right = (sorted(side * (part.center[1] - middle) for part in wheels) for side in (1, -1))
    np.testing.assert_allclose(left, right, atol=1e-12)


def test_views_of_more_toys_are_rendered(quick_renderer):
    some = {"elevations": [0], "azimuths": [0], "lightings": [1], "size": 4}
    train, test = (load("toys", split, toys_per_category=12, **some) for split in ("train", "test"))
    assert (len(train), len(test)) == (60, 50)
    assert train.metadata["instance"].unique().tolist() == list(range(10, 34, 2))
    with pytest.raises(ValueError, match="toys_per_category must be 5, or 10 or more, got 7"):
        load("toys", toys_per_category=7, **some)


def test_table_order_depends_on_the_seed_only():
    assert np.array_equal(table("train", seed=3).info, table("train", seed=3).info)
    assert not np.array_equal(table("train", seed=3).info, table("train", seed=4).info)
    whole, part = table("test", seed=3), table("test", seed=3, **FEW)
    kept = np.isin(whole.info[:, 1], [0, 8]) & np.isin(whole.info[:, 2], [0, 18]) & (whole.info[:, 3] == 1)
    assert np.array_equal(whole.info[kept], part.info)


def test_images_do_not_depend_on_threads_or_neighbors():
    rows = table("test", elevations=[0, 5], azimuths=[6], lightings=[0, 3])
    one, three = render_table(rows, workers=1), render_table(rows, workers=3)
    assert np.array_equal(one, three)
    for number in range(0, len(one), 9):
        instance, elevation, azimuth, lighting = rows.info[number].tolist()
        alone = render(
            int(rows.category[number]),
            instance,
            azimuth_degrees(azimuth),
            elevation_degrees(elevation),
            lighting,
        )
        assert np.array_equal(one[number], alone.numpy())


def test_the_version_increases_when_images_change():
    """When this fails because pictures were changed on purpose: raise VERSION, then write the new numbers."""
    assert files.VERSION == 1
    found = [render(category, 4, 60, 40, 1).float().mean().item() for category in range(5)]
    assert found == pytest.approx([157.89, 167.91, 174.87, 155.46, 167.90], abs=0.05)


def test_files_round_trip(tmp_path):
    rows = table("train", **FEW)
    images = render_table(rows, size=20)
    name = stem("train", 20)
    write_files(tmp_path, name, images, rows)
    assert sorted(path.name for path in tmp_path.glob("toys*")) == [
        f"toys-5x46789x9x18x6x2x20x20-training-{kind}.mat" for kind in ("cat", "dat", "info")
    ]
    assert np.array_equal(read_matrix(tmp_path / f"{name}-dat.mat"), images)
    assert np.array_equal(read_matrix(tmp_path / f"{name}-info.mat"), rows.info)
    again = read_files(tmp_path, name, stereo=True)
    direct = files.as_image_set(images, rows, stereo=True)
    assert torch.equal(again.images, direct.images)
    assert torch.equal(again.labels, direct.labels)
    assert all(torch.equal(again.metadata[fact], direct.metadata[fact]) for fact in direct.metadata)


def test_smallnorbs_loader_reads_the_files(tmp_path):
    rows = table("train", **FEW)
    write_files(tmp_path, stem("train", 20), render_table(rows, size=20), rows)
    read = load("smallnorb", "train", data_dir=tmp_path)
    assert read.images.shape == (len(rows.category), 2, 20, 20)
    assert read.labels.tolist() == rows.category.tolist()


def test_rendered_once_then_read(quick_renderer, tmp_path):
    first = load("toys", "test", size=4)
    second = load("toys", "test", size=4)
    assert quick_renderer == [(24300, 4, True, 0)]
    assert torch.equal(first.images, second.images)
    assert torch.equal(first.metadata["azimuth"], second.metadata["azimuth"])
    folder = tmp_path / "cache" / "toys" / variant(shadows=True, seed=0)
    assert len(list(folder.glob("toys-5x01235x9x18x6x2x4x4-testing-*.mat"))) == 3
    assert not list(folder.glob("*.tmp"))
    few = load("toys", "test", size=4, **FEW)
    assert quick_renderer == [(24300, 4, True, 0)]  # picked out of the whole
    assert len(few) == 100
    load("toys", "test", size=4, seed=1)
    load("toys", "test", size=4, shadows=False)
    assert len(quick_renderer) == 3


def test_a_damaged_cache_is_rendered_again(quick_renderer, tmp_path):
    load("toys", "test", size=4)
    folder = tmp_path / "cache" / "toys" / variant(shadows=True, seed=0)
    dat = folder / f"{stem('test', 4)}-dat.mat"
    dat.write_bytes(dat.read_bytes()[:-7])
    assert len(load("toys", "test", size=4)) == 24300
    assert len(quick_renderer) == 2


def test_data_dir_is_searched_before_the_cache(quick_renderer, tmp_path):
    rows = table("test", **FEW)
    folder = tmp_path / "mine" / "toys" / variant(shadows=True, seed=0)
    write_files(folder, stem("test", 4), np.zeros((len(rows.category), 2, 4, 4), np.uint8), rows)
    assert len(load("toys", "test", size=4, data_dir=tmp_path / "mine")) == 100
    assert not quick_renderer


def test_a_cache_that_cannot_be_written_is_named(quick_renderer, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TORCHCAPS_CACHE", str(tmp_path / "file"))
    with pytest.raises(DataError, match="TORCHCAPS_CACHE"):
        find_or_render("test", data_dir=None, stereo=True, size=4, shadows=True, seed=0)


def test_few_views_are_rendered_at_once_and_not_kept(tmp_path):
    few = load("toys", "train", **FEW)
    assert few.images.shape == (100, 2, 48, 48)
    assert few.classes == ("animal", "human", "plane", "truck", "car")
    assert few.labels.dtype == few.metadata["azimuth"].dtype == torch.int64
    assert not (tmp_path / "cache").exists()
    mono = load("toys", "train", stereo=False, **FEW)
    assert torch.equal(mono.images, few.images[:, :1])


@pytest.mark.parametrize(
    ("viewpoint", "familiar"), [("azimuth", {30, 32, 34, 0, 2, 4}), ("elevation", {0, 1, 2})]
)
def test_novel_viewpoint_splits_share_nothing(quick_renderer, viewpoint, familiar):
    parts = {
        split: load("toys", split, size=4, viewpoint=viewpoint)
        for split in ("train", "test_familiar", "test_novel")
    }
    seen = {split: set(part.metadata[viewpoint].tolist()) for split, part in parts.items()}
    assert seen["train"] == seen["test_familiar"] == familiar
    assert not seen["test_novel"] & familiar
    assert len(parts["test_familiar"]) + len(parts["test_novel"]) == 24300
    train, *tests = (set(part.metadata["instance"].tolist()) for part in parts.values())
    assert all(not train & test for test in tests)


def test_train_and_test_show_different_toys():
    train, test = load("toys", "train", **FEW), load("toys", "test", **FEW)
    for one, other in itertools.islice(itertools.product(train.images, test.images), 0, None, 97):
        assert not torch.equal(one, other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "tset"}, "did you mean 'test'"),
        ({"split": "test", "viewpoint": "azimuth"}, "test_novel"),
        ({"viewpoint": "lighting"}, "unknown viewpoint"),
        ({"azimuths": [1]}, "azimuths must be one or more of"),
        ({"elevations": []}, "elevations must be one or more of"),
        ({"size": 0}, "size must be a whole number"),
        ({"sise": 48}, "did you mean 'size'"),
    ],
)
def test_wrong_options_are_named(options, message):
    split = options.pop("split", "train")
    with pytest.raises(ValueError, match=message):
        load("toys", split, **options)


def test_an_empty_table_gives_no_images():
    nothing = Table(np.zeros(0, np.int32), np.zeros((0, 4), np.int32))
    assert render_table(nothing, size=8).shape == (0, 2, 8, 8)
    assert len(AZIMUTHS) == 18


@pytest.mark.slow
def test_both_splits_in_time():
    start = time.process_time()
    sets = [load("toys", split) for split in ("train", "test")]
    assert [len(each) for each in sets] == [24300, 24300]
    assert time.process_time() - start < 180
