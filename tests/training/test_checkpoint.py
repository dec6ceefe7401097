"""A run killed at any moment and resumed ends as if nothing had happened."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from support import killed_runs
from support.tiny_runs import child_environment, records_of, weights_of

SEED = 20171026
OFTEN, SELDOM = 0.0, 1e9


def scenarios() -> dict[str, dict]:
    dice = random.Random(SEED)
    table: dict[str, dict] = {"whole": {"save_every": SELDOM, "kills": []}}
    # With the state saved after every step, a kill loses one step at most; saved by epoch only, up to six.
    table["steps"] = {"save_every": OFTEN, "kills": [["step", dice.randint(2, 5)] for _ in range(3)]}
    table["epochs"] = {"save_every": SELDOM, "kills": [["step", dice.randint(8, 11)], ["step", 3]]}
    # A session first replaces recipe, environment and metrics; then models and state in turn.
    numbers = [1, 3, *dice.sample(range(4, 12), 3)]
    table["writing"] = {"save_every": OFTEN, "kills": [["replace", number] for number in numbers]}
    return table


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[bool]]]:
    root = tmp_path_factory.mktemp("killed")
    script = Path(killed_runs.__file__)
    done = subprocess.run(
        [sys.executable, str(script), str(root), json.dumps(scenarios())],
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return root, json.loads(done.stdout)


@pytest.mark.parametrize("name", ["steps", "epochs", "writing"])
def test_weights_are_bitwise_those_of_the_whole_run(runs: tuple, name: str) -> None:
    root, deaths = runs
    assert all(deaths[name]), "every kill must have struck, or this tests nothing"
    for file in ("last", "best", "state"):
        whole, resumed = weights_of(root / "whole", file), weights_of(root / name, file)
        assert whole.keys() == resumed.keys()
        for key, tensor in whole.items():
            assert torch.equal(tensor, resumed[key]), f"{file}: {key}"


@pytest.mark.parametrize("name", ["steps", "epochs", "writing"])
def test_metrics_have_no_gap_and_no_duplicate(runs: tuple, name: str) -> None:
    root, _ = runs
    whole = records_of(root / "whole")
    assert [record["step"] for record in whole] == [4, 6, 8, 12, 12, 16, 18]
    assert records_of(root / name) == whole


def test_no_temporary_files_remain(runs: tuple) -> None:
    root, _ = runs
    assert not list(root.glob("*/.*"))
