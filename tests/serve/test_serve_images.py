"""An image gives the same pixels in every form that can be sent; errors name the image and the fault."""

import base64
import json
from io import BytesIO
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from torchcaps.models.weights import ModelCard
from torchcaps.serve.images import JSON, ImageReader, UnreadableImageError
from torchcaps.training.prediction import Predictor


def reader(channels: int = 1, background: float = 0.0, **limits: int) -> ImageReader:
    card = ModelCard("pooled_cnn", {}, 3, channels, (16, 16), ("a", "b", "c"), background=background)
    return ImageReader(Predictor(card.build(), card), **limits)


def file_of(pixels: np.ndarray, kind: str = "PNG") -> bytes:
    file = BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def as_json(*images: Any) -> bytes:
    return json.dumps({"images": images}).encode()


def random_pixels(*shape: int) -> np.ndarray:
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    pixels[[0, -1]] = 0  # a dark border, so that nothing is inverted
    pixels[:, [0, -1]] = 0
    return pixels


@pytest.mark.parametrize("size", [(16, 16), (40, 25)])
@pytest.mark.parametrize("color", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
def test_all_forms_of_an_image_give_the_same_pixels(
    size: tuple[int, int], color: bool, channels: int
) -> None:
    pixels = random_pixels(*size, *([3] if color else []))
    file = file_of(pixels)
    text = base64.b64encode(file).decode()
    rows = (pixels.transpose(2, 0, 1) if color else pixels).tolist()
    read = reader(channels).read
    [expected] = read(file, "image/png")
    assert expected.shape == (channels, 16, 16)
    assert expected.float().std() > 1
    for body, media_type in [
        (file, "application/x-www-form-urlencoded"),  # what curl --data-binary sends by itself
        (as_json(text), JSON),
        (as_json(f"data:image/png;base64,{text}"), JSON),
        (as_json(rows), JSON),
    ]:
        assert torch.equal(read(body, media_type)[0], expected)


def test_pixels_of_the_networks_own_form_are_used_as_they_are() -> None:
    stereo = np.random.default_rng(0).integers(0, 256, (2, 16, 16), dtype=np.uint8)
    [image] = reader(2).read(as_json(stereo.tolist()), JSON)
    assert torch.equal(image, torch.from_numpy(stereo))


def test_ink_on_paper_is_inverted_unless_the_request_says_otherwise() -> None:
    paper = as_json(np.full((16, 16), 250).tolist())
    assert reader().read(paper, JSON)[0].unique().tolist() == [5]
    assert reader().read(paper, JSON, invert=False)[0].unique().tolist() == [250]
    assert reader(background=1.0).read(paper, JSON)[0].unique().tolist() == [250]
    assert reader(background=1.0).read(paper, JSON, invert=True)[0].unique().tolist() == [5]


GRAY = [[0, 255], [255, 0]]


@pytest.mark.parametrize(
    ("body", "media_type", "message"),
    [
        (b"", "image/png", "body: it is empty"),
        (b"not an image", "image/png", "body: it is not an image that can be read"),
        (b'{"images": []}', "", "body: this looks like JSON; send it as application/json"),
        (b"--x", "multipart/form-data", "curl --data-binary"),
        (
            file_of(np.zeros((9, 9), np.uint8)).replace(b"\n", b"").replace(b"\r", b""),
            "application/x-www-form-urlencoded",
            "; curl -d removes line breaks: send the file by curl --data-binary @FILE",
        ),
        (b"{", JSON, "body: not valid JSON"),
        (b"[1]", JSON, "body: "),
        (b"{}", JSON, "images: field required"),
        (b'{"images": []}', JSON, "images: list should have at least 1 item"),
        (b'{"images": [], "image": 1}', JSON, "(and 1 more)"),
        (as_json(GRAY, "%%"), JSON, "images[1]: the text is not base64"),
        (as_json(GRAY, "aGVsbG8="), JSON, "images[1]: it is not an image that can be read"),
        (as_json(GRAY, 7), JSON, "images[1]: expected an image file in base64, or rows"),
        (as_json([[0, 1], [2]]), JSON, "images[0]: expected an image file in base64, or rows"),
        (as_json([0, 1]), JSON, "images[0]: expected"),
        (as_json([[]]), JSON, "images[0]: expected"),
        (as_json([[0, 256]]), JSON, "images[0]: pixels are whole numbers from 0 to 255, got 256"),
        (as_json([[0, -1]]), JSON, "got -1"),
        (as_json([[0, 10**30]]), JSON, "got 1000000000000000"),
        (as_json([[0.0, 1.0]]), JSON, "pixels are whole numbers from 0 to 255, got 0.0"),
        (as_json([[0, True]]), JSON, "got True"),
        (as_json([["1"]]), JSON, "got 1"),
        (as_json([[None]]), JSON, "got None"),
        (as_json([GRAY, GRAY]), JSON, "images[0]: expected 1 or 3 channels, or 1 of 16 rows of 16"),
        (as_json(*[GRAY] * 6), JSON, "at most 5 images, got 6"),
        (as_json([[0] * 500] * 3), JSON, "images[0]: it has 500×3 pixels; at most 1000 are read"),
        (as_json(base64.b64encode(file_of(np.zeros((40, 40), np.uint8))).decode()), JSON, "at most 1000"),
    ],
)
def test_errors_name_the_image_and_the_fault(body: bytes, media_type: str, message: str) -> None:
    with pytest.raises(UnreadableImageError) as error:
        reader(max_pixels=1000, max_images=5).read(body, media_type)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_cut_short_is_named() -> None:
    whole = file_of(random_pixels(40, 40))
    with pytest.raises(UnreadableImageError, match="body: "):
        reader().read(whole[:200], "image/png")


def test_formats_that_need_another_program_are_refused() -> None:
    # Pillow would start Ghostscript for it.
    postscript = file_of(random_pixels(20, 20), "EPS")
    with pytest.raises(UnreadableImageError, match="not an image that can be read"):
        reader().read(postscript, "application/postscript")


def test_deeply_nested_json_is_refused() -> None:
    with pytest.raises(UnreadableImageError):
        reader().read(b'{"images": ' + b"[" * 100_000, JSON)
