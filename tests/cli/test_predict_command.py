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


@pytest.mark.parametrize("command", ["predict", "parse"])
def test_one_bad_image_does_not_stop_the_others(
    command: str, run: Run, trained: Path, capsys: pytest.CaptureFixture
) -> None:
    Image.fromarray(torch.randint(256, (16, 16), dtype=torch.uint8).numpy()).save("good.png")
    Path("broken.png").write_bytes(Path("good.png").read_bytes()[:60])
    run(command, "broken.png", "good.png", "missing.png", "good.png", "--run", trained, "--json", code=1)
    captured = capsys.readouterr()
    assert [json.loads(line)["file"] for line in captured.out.splitlines()] == ["good.png", "good.png"]
    first, second = captured.err.splitlines()
    assert first.startswith("torchcaps: broken.png: ")
    assert second == "torchcaps: missing.png: there is no such file"


def test_a_single_missing_image_is_called_missing(
    run: Run, trained: Path, capsys: pytest.CaptureFixture
) -> None:
    run("predict", "missing.png", "--run", trained, code=1)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "torchcaps: missing.png: there is no such file\n")
