import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image

Run = Callable[..., None]


def test_predict_reads_any_image(run: Run, trained: Path, capsys: pytest.CaptureFixture) -> None:
    pixels = torch.randint(256, (60, 45, 3), dtype=torch.uint8).numpy()
    Image.fromarray(pixels).save("photo.png")
    run("predict", "photo.png", "--run", trained)
    assert capsys.readouterr().out.startswith("photo.png: ")
    run("predict", "photo.png", "--run", trained, "--invert", "--json")
    assert len(json.loads(capsys.readouterr().out)["scores"]) == 10
