"""The view of a run: any network, images as in training, and metrics as they are written."""

import base64
import json
import socket
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient
from typer.testing import CliRunner

from support.tiny_runs import tiny_recipe
from torchcaps.cli.app import app
from torchcaps.lab.model_store import ModelStore
from torchcaps.lab.run import LabRun
from torchcaps.lab.server import create_app
from torchcaps.training import RunError, train
from torchcaps.training.lock import RunLock
from torchcaps.training.prediction import Predictor
from torchcaps.training.recipe import Recipe

RGB = {"red": (200, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 200)}


@pytest.fixture(scope="module")
def gray(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CNN on gray digits."""
    folder = tmp_path_factory.mktemp("runs") / "gray"
    train(tiny_recipe("training.epochs=2"), folder)
    return folder


@pytest.fixture(scope="module")
def colored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capsule network on a folder of color images, of another shape than squares."""
    root = tmp_path_factory.mktemp("photos")
    random = np.random.default_rng(0)
    for split in ("train", "test"):
        for name, color in RGB.items():
            (root / split / name).mkdir(parents=True)
            for number in range(8):
                noise = random.integers(-30, 30, (20, 24, 3))
                pixels = np.clip(np.array(color) + noise, 0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(root / split / name / f"{number}.png")
    recipe = Recipe.from_table(
        {
            "model": {"name": "shared_capsnet", "options": {"stages": [[4], [8]], "class_dim": 4}},
            "data": {"name": f"folder:{root}"},
            "loss": {"name": "margin"},
            "training": {"epochs": 2, "batch_size": 8},
        }
    )
    folder = tmp_path_factory.mktemp("runs") / "colored"
    train(recipe, folder)
    return folder


@pytest.fixture(scope="module")
def client(colored: Path) -> Iterator[TestClient]:
    with TestClient(create_app(ModelStore({}), run=LabRun(colored))) as client:
        yield client


def test_the_run_is_described(client: TestClient) -> None:
    run = client.get("/api/run").json()
    assert (run["name"], run["state"], run["model"]) == ("colored", "finished", "shared_capsnet")
    assert (run["classes"], run["in_channels"]) == (sorted(RGB), 3)
    status = client.get("/api/status").json()
    assert status["run"] == "colored"
    assert [model["id"] for model in status["models"]] == ["run"]
    assert status["models"][0]["metrics"]["error"] <= 1
    assert 'id="view-run"' in client.get("/").text


def test_without_a_run_there_is_no_tab() -> None:
    with TestClient(create_app(ModelStore({}))) as client:
        page = client.get("/").text
        assert "view-run" not in page
        assert "tab-run" not in page
        assert client.get("/api/run").status_code == 404


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WebP"])
def test_an_image_file_is_read_as_by_predict(
    client: TestClient, colored: Path, tmp_path: Path, form: str
) -> None:
    buffer = BytesIO()
    Image.new("RGB", (60, 40), RGB["blue"]).save(buffer, form)
    (tmp_path / "image").write_bytes(buffer.getvalue())
    answer = client.post("/api/run/image", json={"file": base64.b64encode(buffer.getvalue()).decode()}).json()
    [expected] = Predictor.load(colored).files([tmp_path / "image"])
    assert sorted(RGB)[answer["best"]] == expected.label
    assert max(answer["scores"]) == pytest.approx(expected.score, abs=1e-3)
    assert (answer["seen"]["channels"], answer["pose_dim"], len(answer["norms"])) == (3, 4, 3)


def test_the_paths_and_maps_are_those_of_the_parse_tree(client: TestClient) -> None:
    image = client.get("/api/run/images").json()["images"][0]
    answer = client.post("/api/run/image", json={"image": image["image"]}).json()
    assert image["label"] in RGB
    for node in answer["paths"]:
        assert node["name"] in RGB
        assert all(0 <= child["coupling"] <= 1 for child in node["children"])
    assert any(len(node["children"]) == 3 for node in answer["paths"])
    assert len(answer["maps"]) == len(answer["paths"])
    low, high = answer["map_range"]
    assert 0 < low <= high
    size = (image["image"]["height"], image["image"]["width"])
    assert all((each["mask"]["height"], each["mask"]["width"]) == size for each in answer["maps"])


def test_a_cnn_has_no_capsules(gray: Path) -> None:
    with TestClient(create_app(ModelStore({}), run=LabRun(gray))) as client:
        images = client.get("/api/run/images").json()["images"]
        assert len(images) == 20
        answer = client.post("/api/run/image", json={"image": images[0]["image"]}).json()
    assert (answer["norms"], answer["paths"], answer["maps"]) == (None, [], [])
    assert len(answer["scores"]) == 10


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"file": "AAAA"}, 400, "not an image that can be read"),
        ({"file": "é"}, 400, "base64"),
        ({}, 422, "either an image or a file"),
        ({"image": {"channels": 1, "height": 1, "width": 1, "pixels": "AA=="}}, 400, "3 channels"),
    ],
)
def test_a_bad_image_is_explained(
    client: TestClient, body: dict[str, Any], status: int, message: str
) -> None:
    response = client.post("/api/run/image", json=body)
    assert response.status_code == status
    assert message in response.json()["detail"]


def test_metrics_are_those_of_the_file_and_only_new_ones(gray: Path, tmp_path: Path) -> None:
    run, lines = LabRun(gray), (gray / "metrics.jsonl").read_text().splitlines()
    first = run.metrics(0, 0)
    assert first.reset
    assert [point.step for point in first.points] == [json.loads(line)["step"] for line in lines]
    last = json.loads(lines[-1])
    assert first.points[-1].epoch_loss == pytest.approx(last["train"]["loss"], rel=1e-4)
    assert first.points[-1].test_accuracy == pytest.approx(last["test"]["accuracy"], rel=1e-4)
    assert first.points[-1].images_per_second == pytest.approx(last["images_per_second"], rel=1e-4)
    assert first.points[-1].lr is not None
    again = run.metrics(first.next, first.session)
    assert (again.points, again.reset, again.next) == ([], False, first.next)


def test_a_line_that_is_half_written_comes_later(gray: Path) -> None:
    run, path = LabRun(gray), gray / "metrics.jsonl"
    before = path.read_bytes()
    try:
        start = run.metrics(0, 0)
        path.write_bytes(before + b'{"step": 999, "epoch"')
        half = run.metrics(start.next, start.session)
        assert half.points == []
        path.write_bytes(before + b'{"step": 999, "epoch": 3, "loss": NaN, "lr": 0.1}\n')
        [point] = run.metrics(half.next, half.session).points
        assert (point.step, point.loss, point.lr) == (999, None, 0.1)
        path.write_bytes(before[:10])
        assert run.metrics(half.next, half.session).reset, "a resumed run begins again"
    finally:
        path.write_bytes(before)


def test_the_state_of_a_run(gray: Path) -> None:
    run = LabRun(gray)
    assert run.state == "finished"
    lock = RunLock(gray)
    assert run.state == "running"
    lock.release()
    result = gray / "result.json"
    text = result.read_text()
    try:
        result.write_text(text.replace('"ended"', '"interrupted"', 1))
        assert run.state == "stopped"
        (gray / "run.lock").write_text(json.dumps({"pid": 2**30, "host": socket.gethostname()}))
        assert run.state == "stopped", "its process was killed"
    finally:
        (gray / "run.lock").unlink(missing_ok=True)
        result.write_text(text)


def test_newer_weights_are_loaded(gray: Path) -> None:
    run = LabRun(gray)
    network = run.network
    assert run.refresh() is False
    (gray / "last.safetensors").touch()
    assert run.refresh() is True
    assert run.network is not network


def test_a_run_without_weights_is_shown_only_while_it_is_trained(gray: Path, tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text((gray / "recipe.toml").read_text())
    with pytest.raises(RunError, match="torchcaps train --resume"):
        LabRun(tmp_path)
    lock = RunLock(tmp_path)
    try:
        with TestClient(create_app(ModelStore({}), run=LabRun(tmp_path))) as client:
            assert client.get("/api/run").json()["network"] is None
            image = {"channels": 1, "height": 1, "width": 1, "pixels": "AA=="}
            response = client.post("/api/run/image", json={"image": image})
            assert response.status_code == 503
            assert "no trained model yet" in response.json()["detail"]
    finally:
        lock.release()


@pytest.mark.parametrize("fault", ["missing", "no run", "saved", "damaged", "recipe"])
def test_a_folder_that_cannot_be_shown_is_reported_at_the_start(
    gray: Path, tmp_path: Path, fault: str
) -> None:
    folder, message = (
        tmp_path / "run",
        {
            "missing": "there is no such folder",
            "no run": "holds no recipe.toml",
            "saved": "is a folder of save_pretrained, which has no curves: give the run's own folder",
            "damaged": "last.safetensors is damaged",
            "recipe": "recipe.toml",
        },
    )
    if fault != "missing":
        folder.mkdir()
    if fault == "saved":
        (folder / "model.safetensors").touch()
    if fault in ("damaged", "recipe"):
        text = (gray / "recipe.toml").read_text() if fault == "damaged" else "model = 3"
        (folder / "recipe.toml").write_text(text)
        (folder / "last.safetensors").write_bytes(b"no tensors")
    result = CliRunner().invoke(app, ["lab", "--port", "0", "--run", str(folder)])
    assert result.exit_code != 0
    assert message[fault] in (result.output + str(result.exception)).replace("\n", " ")
