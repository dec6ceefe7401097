from __future__ import annotations

import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps, TiffImagePlugin

from torchcaps.data import ImageSet, load
from torchcaps.errors import DataError


def paint(path: Path, value: object, size: tuple[int, int] = (12, 12), mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value).save(path)


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Two classes in many kinds of image file."""
    for number in range(5):
        paint(tmp_path / f"red/{number}.png", (250, 10, 10), (10 + number, 20))
        paint(tmp_path / f"blue/deep/{number}.jpg", (10, 10, 250), (30, 10 + number))
    paint(tmp_path / "red/palette.gif", 3, mode="P")
    paint(tmp_path / "red/gray.png", 128, mode="L")
    paint(tmp_path / "red/clear.png", (0, 0, 0, 0), mode="RGBA")
    paint(tmp_path / "blue/bits.png", 1, mode="1")
    (tmp_path / "red/notes.txt").write_text("not an image")
    (tmp_path / ".hidden").mkdir()
    return tmp_path


def test_any_size_and_mode(mixed: Path) -> None:
    train, test = load("folder", data_dir=mixed, size=16), load("folder", "test", data_dir=mixed, size=16)
    assert train.classes == ("blue", "red")
    assert train.images.shape[1:] == test.images.shape[1:] == (3, 16, 16)
    assert len(train) + len(test) == 14
    assert test.labels.bincount().tolist() == [1, 2]


def test_folder_colon_path_is_the_same(mixed: Path) -> None:
    assert torch.equal(
        load(f"folder:{mixed}", size=16).images, load("folder", data_dir=mixed, size=16).images
    )


def test_colors_and_transparency(tmp_path: Path) -> None:
    paint(tmp_path / "a/1.png", (250, 10, 20))
    paint(tmp_path / "b/1.png", (0, 0, 0, 0), mode="RGBA")
    images = load(f"folder:{tmp_path}").images
    assert images[:, :, 3, 3].tolist() == [[250, 10, 20], [255, 255, 255]]


def test_gray_if_all_are(tmp_path: Path) -> None:
    paint(tmp_path / "a/1.png", 77, mode="L")
    paint(tmp_path / "b/1.png", 1, mode="1")
    deep = np.full((12, 12), 40_000, np.uint16)
    Image.fromarray(deep).save(tmp_path / "b/2.png")
    images = load(f"folder:{tmp_path}").images
    assert images.shape[1:] == (1, 12, 12)
    everything = torch.cat([images, load(f"folder:{tmp_path}", "test").images])
    assert sorted(everything[:, 0, 0, 0].tolist()) == [77, 156, 255]


def test_own_size_is_kept_and_mixed_sizes_become_64(tmp_path: Path) -> None:
    paint(tmp_path / "a/1.png", (1, 2, 3), (20, 30))
    assert load(f"folder:{tmp_path}").image_size == (30, 20)
    paint(tmp_path / "a/2.png", (1, 2, 3), (21, 30))
    assert load(f"folder:{tmp_path}").image_size == (64, 64)


def test_the_center_is_kept_without_distortion(tmp_path: Path) -> None:
    picture = np.zeros((10, 30, 3), np.uint8)
    picture[:, 10:20] = 255
    (tmp_path / "a").mkdir()
    Image.fromarray(picture).save(tmp_path / "a/1.png")
    assert load(f"folder:{tmp_path}", size=10).images.min() == 255


def test_train_and_test_folders(tmp_path: Path) -> None:
    for number in range(3):
        paint(tmp_path / f"train/cat/{number}.png", (1, 1, 1))
        paint(tmp_path / f"train/dog/{number}.png", (2, 2, 2))
    paint(tmp_path / "test/dog/9.png", (9, 9, 9))
    assert len(load(f"folder:{tmp_path}")) == 6
    test = load(f"folder:{tmp_path}", "test")
    assert (test.labels.tolist(), test.classes, test.images.max()) == ([1], ("cat", "dog"), 9)
    paint(tmp_path / "test/cow/1.png", (9, 9, 9))
    with pytest.raises(DataError, match="cow"):
        load(f"folder:{tmp_path}", "test")


def test_the_test_fraction_is_seeded_and_disjoint(tmp_path: Path) -> None:
    for number in range(20):
        paint(tmp_path / f"a/{number:02}.png", (number, 0, 0))

    def reds(split: str, **options: object) -> list[int]:
        found: ImageSet = load(f"folder:{tmp_path}", split, **options)
        return found.images[:, 0, 0, 0].tolist()

    train, test = reds("train", test_fraction=0.3), reds("test", test_fraction=0.3)
    assert sorted(train + test) == list(range(20))
    assert len(test) == 6
    assert reds("test", test_fraction=0.3) == test
    assert reds("test", test_fraction=0.3, seed=1) != test


@pytest.mark.parametrize("keep", [0, 20, 60, 3000])
def test_a_broken_image_is_named(tmp_path: Path, keep: int) -> None:
    (tmp_path / "a").mkdir()
    noise = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "a/bad.png")
    whole = (tmp_path / "a/bad.png").read_bytes()
    (tmp_path / "a/bad.png").write_bytes(whole[:keep])
    with pytest.raises(DataError, match=r"bad\.png"):
        load(f"folder:{tmp_path}")


def test_missing_things_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere"):
        load(f"folder:{tmp_path}/nowhere")
    with pytest.raises(DataError, match="no class sub-folders"):
        load(f"folder:{tmp_path}")
    with pytest.raises(ValueError, match="folder:PATH"):
        load("folder")
    with pytest.raises(ValueError, match="test_fraction"):
        load(f"folder:{tmp_path}", test_fraction=1.5)


@pytest.mark.parametrize("orientation", ["6", b"6", "left", 0, 9, 65535, (6, 6), 1.5])
@pytest.mark.parametrize("suffix", ["tif", "jpg"])
def test_an_orientation_of_any_kind_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, orientation: object, suffix: str
) -> None:
    """Pillow gives the tag as it is stored: as text, bytes, a fraction or several numbers."""
    paint(tmp_path / f"a/1.{suffix}", (9, 9, 9), (20, 30))
    read_tags = Image.Image.getexif

    def getexif(image: Image.Image) -> Image.Exif:
        tags = read_tags(image)
        tags[0x0112] = orientation
        return tags

    monkeypatch.setattr(Image.Image, "getexif", getexif)
    images = load(f"folder:{tmp_path}")
    assert images.images.shape == (1, 3, 30, 20)


def test_an_orientation_stored_as_text_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    tags = TiffImagePlugin.ImageFileDirectory_v2()
    tags.tagtype[0x0112] = 2
    tags[0x0112] = "rotated"
    Image.new("RGB", (20, 30), (9, 9, 9)).save(tmp_path / "a/1.tif", tiffinfo=tags)
    assert load(f"folder:{tmp_path}").image_size == (30, 20)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["png", "jpg", "tif"])
def test_photographs_are_rotated_as_their_orientation_says(
    tmp_path: Path, suffix: str, orientation: int
) -> None:
    file = tmp_path / f"a/1.{suffix}"
    file.parent.mkdir()
    pixels = np.zeros((20, 30, 3), np.uint8)
    pixels[:, :15] = 200
    pixels[:10] += 50
    tags = Image.Exif()
    tags[0x0112] = orientation
    Image.fromarray(pixels).save(file, exif=tags)
    expected = ImageOps.exif_transpose(Image.open(file))
    images = load(f"folder:{tmp_path}").images
    assert np.array_equal(images[0].permute(1, 2, 0).numpy(), np.asarray(expected))


def test_damaged_tags_do_not_hide_a_good_image(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    image = Image.new("RGB", (20, 30), (9, 9, 9))
    for number, tags in enumerate([b"Exif\0\0", b"Exif\0\0nonsense", b"Exif\0\0II*\0\xff\xff\xff\xff"]):
        image.save(tmp_path / f"a/{number}.jpg", exif=tags)
    assert load(f"folder:{tmp_path}").image_size == (30, 20)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_pixels_that_are_no_numbers_are_named(tmp_path: Path, value: float) -> None:
    (tmp_path / "a").mkdir()
    pixels = np.zeros((12, 12), np.float32)
    pixels[3, 4] = value
    Image.fromarray(pixels).save(tmp_path / "a/bad.tif")
    with pytest.raises(DataError, match=r"bad\.tif: 1 of 144 pixels are not finite numbers"):
        load(f"folder:{tmp_path}")


def png_header(width: int, height: int) -> bytes:
    """A PNG file without pixels."""
    chunks = [b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0), b"IDAT"]
    packed = [struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


@pytest.mark.parametrize("side", [12_000, 50_000])
@pytest.mark.parametrize("stream", [False, True])
def test_an_image_of_too_many_pixels_is_refused_by_its_header(
    tmp_path: Path, side: int, stream: bool
) -> None:
    paint(tmp_path / "a/1.png", (1, 2, 3))
    (tmp_path / "a/huge.png").write_bytes(png_header(side, side))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DataError, match=r"huge\.png: .* pixels.*max_pixels"):
            load(f"folder:{tmp_path}", stream=stream)


def test_the_limit_of_pixels_is_an_option(tmp_path: Path) -> None:
    for number in range(3):
        paint(tmp_path / f"a/{number}.png", (1, 2, 3), (20, 30))
    with pytest.raises(DataError, match="20×30 pixels; at most 599 are read"):
        load(f"folder:{tmp_path}", max_pixels=599)
    assert len(load(f"folder:{tmp_path}", max_pixels=600)) == 2
    streamed = load(f"folder:{tmp_path}", max_pixels=600, stream=True)
    paint(tmp_path / "a/0.png", (1, 2, 3), (20, 31))
    paint(tmp_path / "a/1.png", (1, 2, 3), (20, 31))
    with pytest.raises(DataError, match="at most 600 are read"):
        streamed.select(torch.tensor([0, 1])).to_memory()
    with pytest.raises(ValueError, match="max_pixels must be a whole number"):
        load(f"folder:{tmp_path}", max_pixels=0)


def test_an_allowed_image_may_be_larger_than_pillows_own_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paint(tmp_path / "a/1.png", (1, 2, 3), (20, 30))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 400)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(load(f"folder:{tmp_path}")) == 1
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(DataError, match=r"PIL\.Image\.MAX_IMAGE_PIXELS"):
        load(f"folder:{tmp_path}")


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """A dark picture of 80×40 with a bright object in its left quarter."""
    picture = np.full((40, 80, 3), (20, 30, 40), np.uint8)
    picture[12:28, 4:16] = 255
    (tmp_path / "a").mkdir()
    Image.fromarray(picture).save(tmp_path / "a/1.png")
    return tmp_path


@pytest.mark.parametrize("stream", [False, True])
def test_padding_keeps_what_cropping_loses(wide: Path, stream: bool) -> None:
    cropped, _ = load(f"folder:{wide}", size=16, stream=stream)[0]
    assert cropped[0].max() == 20
    images = load(f"folder:{wide}", size=16, stream=stream, pad=True)
    image, _ = images.select(torch.tensor([True]))[0]
    assert image.shape == (3, 16, 16)
    assert image[0, 7:9, 1:3].min() > 240  # in its place, at a fifth of its size
    for rows in (image[:, :4], image[:, 12:]):  # above and below, the color of the border
        assert (rows == torch.tensor([20, 30, 40], dtype=torch.uint8).view(3, 1, 1)).all()
    assert images.select(torch.tensor([True])).pad


def test_a_line_of_pixels_is_padded(tmp_path: Path) -> None:
    paint(tmp_path / "a/1.png", 200, (2000, 2), "L")
    assert (load(f"folder:{tmp_path}", size=16, pad=True).images == 200).all()


def test_a_model_reads_files_padded_if_it_was_trained_so(wide: Path, tmp_path: Path) -> None:
    """By a recipe and by `fit`, from memory and streamed, with validation images; and it is saved so."""
    from torchcaps import create_model, fit
    from torchcaps.training import Predictor, default_recipe, train

    paint(wide / "b/1.png", (200, 0, 0), (40, 80))
    paint(wide / "b/2.png", (200, 0, 0), (40, 80))
    expected = load(f"folder:{wide}", size=16, pad=True)[0][0]
    settings = ["data.options.size=16", "data.options.pad=true", "model.options.stages=[[4]]"]
    settings += ["training.epochs=1", "evaluation.extra_datasets=[]"]
    train(default_recipe("pooled_cnn", f"folder:{wide}").override(settings), tmp_path / "runs/recipe")
    for stream in (False, True):
        images = load(f"folder:{wide}", size=16, pad=True, stream=stream)
        model = create_model("pooled_cnn", num_classes=2, in_channels=3, image_size=16, stages=((4,),))
        fit(model, images, val_fraction=0.5, epochs=1, out=tmp_path / f"runs/{stream}")
        model.save_pretrained(tmp_path / f"runs/{stream}/folder")
    for run in ("recipe", "False", "True", "True/folder/model.safetensors"):
        predictor = Predictor.load(tmp_path / "runs" / run)
        assert torch.equal(predictor.read(wide / "a/1.png"), expected), run
