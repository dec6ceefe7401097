"""Who trains without the fused kernels is told so, once and with the reason."""

from pathlib import Path

import pytest
import torch

from support.tiny_runs import tiny_recipe
from torchcaps import create_model, kernels
from torchcaps.kernels import dispatch
from torchcaps.training import train
from torchcaps.training.plain_form import notice_plain_form

CPU = torch.device("cpu")


@pytest.fixture
def _no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "native", None)
    monkeypatch.setattr(dispatch, "_missing", "no compiler")
    monkeypatch.setattr(dispatch, "_reason", "no compiler")
    monkeypatch.setattr(dispatch, "_default", False)


@pytest.mark.usefixtures("_no_compiler")
def test_a_training_says_it_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    network = "model={name = 'shared_capsnet', options = {stages = [[4], [8]]}}"
    train(tiny_recipe(network, "data.options.size=16", "training.epochs=2"), tmp_path / "run")
    notices = [each for each in caplog.messages if "plain form" in each]
    assert notices == ["routing runs in its plain form (EM up to 14 times slower): no compiler"]


@pytest.mark.usefixtures("_no_compiler")
def test_nothing_is_said_where_nothing_is_lost(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    notice_plain_form(create_model("pooled_cnn"), CPU)
    notice_plain_form(create_model("shared_capsnet", routing="kmeans"), CPU)
    model = create_model("shared_capsnet")
    with kernels.disabled():
        notice_plain_form(model, CPU)
    monkeypatch.setattr(dispatch, "_reason", "TORCHCAPS_KERNELS=off")
    notice_plain_form(model, CPU)
    monkeypatch.undo()
    monkeypatch.setattr(dispatch, "_missing", "")
    notice_plain_form(model, CPU)
    assert caplog.messages == []


def test_on_a_gpu_the_reason_is_that_of_the_gpu(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "missing_on_gpu", "triton is missing")
    notice_plain_form(create_model("shared_capsnet"), torch.device("cuda"))
    assert caplog.messages[0].endswith(": triton is missing")
