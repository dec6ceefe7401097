import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image

from torchcaps.training.prediction import Predictor, find_weights

Run = Callable[..., None]


def test_predict_reads_any_image(run: Run, trained: Path, capsys: pytest.CaptureFixture) -> None:
    pixels = torch.randint(256, (60, 45, 3), dtype=torch.uint8).numpy()
    Image.fromarray(pixels).save("photo.png")
    run("predict", "photo.png", "--run", trained)
    assert capsys.readouterr().out.startswith("photo.png: ")
    run("predict", "photo.png", "--run", trained, "--invert", "--json")
    assert len(json.loads(capsys.readouterr().out)["scores"]) == 10


def test_a_folder_of_save_pretrained_is_taken_like_a_run(
    run: Run, trained: Path, capsys: pytest.CaptureFixture
) -> None:
    Predictor.load(trained).model.save_pretrained("saved")
    assert find_weights("saved") == Path("saved/model.safetensors")  # which serve calls
    Image.fromarray(torch.randint(256, (16, 16), dtype=torch.uint8).numpy()).save("photo.png")
    for command in ("predict", "parse"):
        run(command, "photo.png", "--run", "saved", "--json")
        saved = json.loads(capsys.readouterr().out)
        run(command, "photo.png", "--run", trained, "--json")
        assert saved == json.loads(capsys.readouterr().out)
    run("export", "saved", "--out", "network.pt2")
    run("evaluate", "saved", "--data", "digits", "-s", "size=16")
    run("evaluate", "saved", code=2)
    assert "name the data set to test on with --data" in capsys.readouterr().err
    # In the folder of a run, the model that the run reports stays the one that is used.
    shutil.copytree(trained, "both")
    shutil.copy("saved/model.safetensors", "both")
    assert find_weights("both") == Path("both/last.safetensors")


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
