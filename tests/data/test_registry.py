from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import torchcaps.data
from torchcaps import register_dataset, register_model, register_pose_space, register_routing
from torchcaps.data import list_datasets, load
from torchcaps.errors import DataError

EXPECTED = {
    "affine_mnist",
    "cifar10",
    "digits",
    "fashion_mnist",
    "folder",
    "mnist",
    "multimnist",
    "norb",
    "smallnorb",
    "two_digits",
}


def test_all_sets_are_listed() -> None:
    assert set(list_datasets()) >= EXPECTED


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mnits", {}, "unknown data set 'mnits': did you mean 'mnist'"),
        ("digits", {"split": "trian"}, "unknown split 'trian': did you mean 'train'"),
        ("digits", {"sizes": 3}, "unknown option 'sizes' for data set 'digits': did you mean 'size'"),
        ("mnist", {"size": 3}, "Known: limit, limit_per_class"),
        ("mnist:/tmp", {}, "only folder:PATH"),
        ("folder:", {}, "only folder:PATH"),
        ("folder:/tmp", {"data_dir": "/tmp"}, "cannot be used together"),
    ],
)
def test_wrong_names_get_a_suggestion(name: str, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(name, **options)


def test_public_names_exist() -> None:
    for name in torchcaps.data.__all__:
        assert getattr(torchcaps.data, name) is not None
    assert set(torchcaps.data.__all__) <= set(dir(torchcaps.data))
    with pytest.raises(AttributeError, match="nonsense"):
        torchcaps.data.nonsense  # noqa: B018


def test_importing_is_light() -> None:
    heavy = ("sklearn", "scipy", "PIL", "matplotlib", "urllib.request", "rich")
    report = f"print([name for name in {heavy} if name in sys.modules])"
    # What torch itself brings is not ours to avoid.
    code = f"import sys, torch; {report}; import torchcaps.data; torchcaps.data.list_datasets(); {report}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after = done.stdout.splitlines()
    assert after == before


def test_a_folder_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such folder"):
        load("digits", data_dir=tmp_path / "nowhere")


def test_a_loader_may_return_any_data_set() -> None:
    pairs = [(torch.zeros(1, 8, 8), 0)]
    register_dataset("pairs_of_mine")(lambda split="train", *, data_dir=None: pairs)
    assert load("pairs_of_mine") is pairs


@pytest.mark.parametrize(
    ("register", "message"),
    [
        (lambda: register_dataset(len), "a data set is registered with its name"),  # type: ignore[arg-type]
        (lambda: register_routing(len), "a routing is registered with its name"),  # type: ignore[arg-type]
        (lambda: register_routing("mine")(len), "routing 'mine' must be a subclass of Routing"),
        (lambda: register_pose_space("mine")(int), "pose space 'mine' must be a subclass of PoseSpace"),
        (lambda: register_model("mine"), "leave 'mine' out"),  # type: ignore[call-overload]
    ],
)
def test_a_wrong_registration_is_explained(register: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        register()
