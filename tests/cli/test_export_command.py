import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

Run = Callable[..., None]


def test_export_writes_a_program(run: Run, trained: Path, capsys: pytest.CaptureFixture) -> None:
    run("export", trained, "--out", "network.pt2", "--json")
    facts = json.loads(capsys.readouterr().out)
    assert facts["difference"] <= 1e-5
    files = {"torchcaps.json": ""}
    torch.export.load("network.pt2", extra_files=files)
    description = json.loads(files["torchcaps.json"])
    assert len(description["classes"]) == 10
    assert description["outputs"] == facts["outputs"]
