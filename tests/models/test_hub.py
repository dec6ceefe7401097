"""Folders and repositories: what is kept, and what is refused."""

import inspect
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.fake_hub import COMMIT, fake_hub
from support.tiny_runs import tiny_recipe
from torchcaps import CapsuleHead, Model, create_model
from torchcaps.errors import MissingExtraError, RunError
from torchcaps.models import CapsuleModel, hub, pretrained_path
from torchcaps.models.weights import load_weights
from torchcaps.routing import ROUTINGS, DynamicRouting, register_routing
from torchcaps.training import train


def test_a_folder_keeps_the_card_of_the_run(tmp_path: Path) -> None:
    model, card = load_weights(pretrained_path("shared_capsnet", "mnist"))
    model.save_pretrained(tmp_path / "digits")
    again = CapsuleModel.from_pretrained(tmp_path / "digits")
    assert again.card == card
    assert not again.training
    readme = (tmp_path / "digits" / "README.md").read_text(encoding="utf-8")
    assert "library_name: torchcaps" in readme
    assert "| data | mnist |" in readme


def test_the_page_of_a_model_names_the_modules_to_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ROUTINGS, "_entries", dict(ROUTINGS._entries))
    kind = type("Own", (DynamicRouting,), {"__module__": "my_routing"})
    register_routing("my_topk")(kind)
    for routing, own in (("my_topk", True), ("dynamic", False)):
        create_model("capsnet_small", routing=routing).save_pretrained(tmp_path)
        readme = (tmp_path / "README.md").read_text(encoding="utf-8")
        sentence = "The routing `my_topk` does not come with torchcaps: import the module that registers it"
        assert (f"\n\n{sentence} (`my_routing`) before you load this model.\n\n```python" in readme) == own


def test_a_new_classifier_forgets_the_old_names(tmp_path: Path) -> None:
    model, _ = load_weights(pretrained_path("shared_capsnet", "mnist"))
    model.reset_classifier(2)
    with pytest.raises(ValueError, match="classes must be 2 names, got 3"):
        model.save_pretrained(tmp_path, classes=("a", "b", "c"))
    model.save_pretrained(tmp_path, classes=("cat", "dog"))
    assert Model.from_pretrained(tmp_path).card.classes == ("cat", "dog")


def test_what_cannot_be_loaded_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunError, match=r"there is no model\.safetensors in it"):
        Model.from_pretrained(tmp_path)
    for missing in ("nothing", str(tmp_path / "nothing")):
        with pytest.raises(RunError, match=r"nothing: there is no such folder"):
            Model.from_pretrained(missing)
    run = tmp_path / "run"
    run.mkdir()
    (run / "recipe.toml").touch()
    with pytest.raises(RunError, match=r"is the folder of a run.*training\.Predictor\.load\(.*run\"\)"):
        Model.from_pretrained(run)
    with pytest.raises(RunError, match=r"is a file: torchcaps\.training\.load_weights reads it"):
        Model.from_pretrained(run / "recipe.toml")
    monkeypatch.setenv("TORCHCAPS_OFFLINE", "1")
    with pytest.raises(RunError, match="no folder me/nothing, and the hub is not used"):
        Model.from_pretrained("me/nothing")
    create_model("pooled_cnn").save_pretrained(tmp_path)
    with pytest.raises(RunError, match="holds a PooledCNN, not a CapsuleModel"):
        CapsuleModel.from_pretrained(tmp_path)


def test_what_cannot_be_built_again_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not built by create_model"):
        CapsuleHead("conv5", in_channels=1, image_size=28).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="not built by create_model"):
        CapsuleHead("conv5", in_channels=1, image_size=28).reset_classifier(3)
    model = create_model("capsnet_small", routing=DynamicRouting())
    with pytest.raises(ValueError, match="name the routing or backbone instead"):
        model.save_pretrained(tmp_path)


class FakeHub:
    """Stands in for huggingface_hub: keeps what was uploaded, or has no network."""

    def __init__(self, online: bool) -> None:
        self.online, self.files = online, set[str]()

    def HfApi(self) -> "FakeHub":  # noqa: N802
        return self

    def create_repo(self, repository: str, *, private: bool, exist_ok: bool) -> None:
        if not self.online:
            raise ConnectionError("Name or service not known")

    def upload_folder(self, *, repo_id: str, folder_path: str) -> str:
        self.files = {path.name for path in Path(folder_path).iterdir()}
        return f"https://hub/{repo_id}"


def test_publishing_uploads_the_folder_or_says_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    model = create_model("pooled_cnn")
    online, offline = FakeHub(True), FakeHub(False)
    monkeypatch.setattr(hub, "require", lambda *_args, **_facts: online)
    assert model.push_to_hub("me/digits", private=True) == "https://hub/me/digits"
    assert online.files == {"model.safetensors", "config.json", "README.md"}
    monkeypatch.setattr(hub, "require", lambda *_args, **_facts: offline)
    with pytest.raises(RunError, match="me/digits cannot be written on the hub: Name or service not known"):
        model.push_to_hub("me/digits")


def test_the_hub_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"torchcaps\[hub\]"):
        create_model("pooled_cnn").push_to_hub("me/digits")


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """The calls of the real HfApi, each checked against its signature; nothing is sent."""
    huggingface_hub = pytest.importorskip("huggingface_hub")
    calls: list[tuple[str, dict[str, Any]]] = []

    def replace(name: str, answer: Callable[[dict[str, Any]], Any]) -> None:
        signature = inspect.signature(getattr(huggingface_hub.HfApi, name))

        def method(self: object, *args: Any, **options: Any) -> Any:
            bound = signature.bind(self, *args, **options).arguments
            bound.pop("self")
            calls.append((name, bound))
            return answer(bound)

        monkeypatch.setattr(huggingface_hub.HfApi, name, method)

    def upload(options: dict[str, Any]) -> str:
        folder = Path(options["folder_path"])
        options["files"] = {path.name: path.read_bytes() for path in folder.iterdir()}
        return f"https://huggingface.co/{options['repo_id']}/commit/1"

    replace("create_repo", lambda options: None)
    replace("upload_folder", upload)
    return calls


def test_a_run_is_published_with_its_model_card(
    api: list[tuple[str, dict[str, Any]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(tiny_recipe(), tmp_path / "run")
    model, card = load_weights(tmp_path / "run" / "last.safetensors")
    assert model.push_to_hub("me/digits", private=True) == "https://huggingface.co/me/digits/commit/1"
    (first, creation), (second, upload) = api
    assert (first, creation["repo_id"], creation["private"]) == ("create_repo", "me/digits", True)
    assert creation["exist_ok"] is True
    assert (second, upload["repo_id"]) == ("upload_folder", "me/digits")
    assert set(upload["files"]) == {"model.safetensors", "config.json", "README.md"}
    readme = upload["files"]["README.md"].decode()
    assert readme.startswith("---\nlibrary_name: torchcaps\n")
    assert f"# {card.model}\n" in readme
    assert card.facts
    for name, value in card.facts.items():
        assert f"| {name} | {value if isinstance(value, str) else format(value, ',')} |" in readme
    # What was sent can be read again, from a cache of the hub's library as from a folder.
    (tmp_path / "cache").mkdir()
    for name, content in upload["files"].items():
        (tmp_path / "cache" / name).write_bytes(content)
    hub_module = __import__("huggingface_hub")
    monkeypatch.setattr(hub_module, "hf_hub_download", lambda repo, name, revision: tmp_path / "cache" / name)
    again = Model.from_pretrained("me/digits", revision="v1")
    assert again.card == card


# Run by a new interpreter, since the hub's library reads its address when it is imported.
ROUND_TRIP = """
import sys
from pathlib import Path
import torch
from torchcaps import Model
from torchcaps.errors import RunError
from torchcaps.models.weights import load_weights
model, card = load_weights(Path(sys.argv[1]))
print(model.push_to_hub("me/digits", private=True))
print(model.push_to_hub("me/digits", run=Path(sys.argv[1]).parent))
again = Model.from_pretrained("me/digits")
images = torch.rand(2, model.in_channels, *model.image_size)
print(again.card.classes == card.classes, torch.equal(again(images).scores, model.eval()(images).scores))
try:
    Model.from_pretrained("me/nothing")
except RunError as error:
    print(error)
"""


def test_a_run_goes_to_a_server_and_back(tmp_path: Path) -> None:
    """With the library that users have, and a server that answers as the hub does."""
    pytest.importorskip("huggingface_hub")
    result = train(tiny_recipe(), tmp_path / "run")
    with fake_hub() as server:
        environment = {
            **os.environ,
            "HF_ENDPOINT": server.url,
            "HF_TOKEN": "hf_secret",
            "HF_HOME": str(tmp_path / "home"),
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
            "NO_PROXY": "127.0.0.1",
        }
        environment.pop("TORCHCAPS_OFFLINE", None)
        environment.pop("HF_HUB_OFFLINE", None)
        done = subprocess.run(
            [sys.executable, "-c", ROUND_TRIP, tmp_path / "run" / "last.safetensors"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    first, second, same, missing = done.stdout.splitlines()
    assert first == second == f"{server.url}/me/digits/commit/{COMMIT}"
    assert same == "True True"
    assert missing.startswith("there is no folder me/nothing, and it cannot be fetched from the hub: ")
    assert server.private == {"me/digits"}
    assert server.tokens == {"Bearer hf_secret"}
    files = server.repositories["me/digits"]
    assert set(files) == {"model.safetensors", "config.json", "README.md"}
    card = files["README.md"].decode()
    assert 'Model.from_pretrained("me/digits")' in card
    assert "| data | digits |" in card
    metrics = result["metrics"]["test"]
    assert f"| test | {100 * metrics['accuracy']:.2f} % | {metrics['count']:,} |" in card
    assert f"| parameters | {result['num_params']:,} |" in card
    yaml = pytest.importorskip("yaml")
    [entry] = yaml.safe_load(card.split("---")[1])["model-index"]
    assert entry["results"][0]["metrics"] == [{"type": "accuracy", "value": round(metrics["accuracy"], 4)}]


def test_a_run_that_is_not_finished_is_refused(tmp_path: Path) -> None:
    model = create_model("pooled_cnn")
    with pytest.raises(RunError, match=r"there is no result\.json in it, so it is not a finished run"):
        model.save_pretrained(tmp_path / "mine", run=tmp_path)
    (tmp_path / "result.json").write_text("{}")
    with pytest.raises(RunError, match=r"result\.json: it cannot be read"):
        model.save_pretrained(tmp_path / "mine", run=tmp_path)
    assert not (tmp_path / "mine").exists()


def test_folders_need_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    create_model("pooled_cnn").save_pretrained(tmp_path / "mine")
    assert Model.from_pretrained(tmp_path / "mine").created_as[0] == "pooled_cnn"
