from __future__ import annotations

import subprocess
import sys

import pytest

import torchcaps.data
from torchcaps.data import list_datasets, load

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
        ("mnist", {"size": 3}, "Known: none"),
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
