from pathlib import Path

import pytest
import torch

from torchcaps.plots import confusion_figure
from torchcaps.training.metrics import MetricSums


def test_confusion_figure_is_drawn(tmp_path: Path) -> None:
    sums = MetricSums(tuple("abcd"))
    sums.add(torch.rand(40, 4), torch.randint(4, (40,)))
    drawn = confusion_figure(sums.evaluation(), tmp_path / "confusion.png", "title")
    assert drawn.stat().st_size > 5000


def test_a_confusion_matrix_needs_one_label_per_image(tmp_path: Path) -> None:
    sums = MetricSums(tuple("abcd"))
    sums.add(torch.rand(5, 4), torch.tensor([[0, 1]] * 5))
    with pytest.raises(ValueError, match="one label"):
        confusion_figure(sums.evaluation(), tmp_path / "none.png")
