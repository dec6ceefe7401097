from pathlib import Path

import pytest
import torch
from torch import Tensor

from torchcaps.data.preprocess import Preprocess
from torchcaps.experiments.adversarial import BASE, CAPS, compared
from torchcaps.experiments.adversarial.measurements import PANELS, Seen, attack, right, targeted_success
from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.study import Study
from torchcaps.experiments.listing import find_claim
from torchcaps.models import Model, Output, create_model
from torchcaps.models.base import softmax_output


class Stubborn(Model):
    """Says the same class of every image, and yet has a slope."""

    def __init__(self, says: int) -> None:
        super().__init__(num_classes=4, in_channels=1, image_size=3)
        self.says = says
        self.weight = torch.nn.Parameter(torch.zeros(()))

    def forward(self, images: Tensor, target: Tensor | None = None) -> Output:
        logits = images.new_zeros(len(images), 4)
        logits[:, self.says] = 5.0
        return softmax_output(logits + 0.01 * images.mean((1, 2, 3))[:, None] + self.weight)


def test_success_is_over_all_classes_that_an_image_is_not() -> None:
    labels = torch.tensor([0, 1, 2, 2, 3, 3])
    images = torch.rand(6, 1, 3, 3)
    # Of 6 images × 3 feigned classes, those that feign class 2 succeed: one for each image that is no 2.
    assert targeted_success(Stubborn(2), images, labels, 0.1) == pytest.approx(100 * 4 / 18)
    assert right(Stubborn(2), images, labels) == pytest.approx(100 * 2 / 6)


def test_preparation_inside_is_preparation_outside() -> None:
    prepare = Preprocess(standardize=True, crop=12)
    model = create_model(
        "pooled_cnn", num_classes=5, in_channels=2, image_size=12, stages=((4,), (4,))
    ).eval()
    images = torch.randint(0, 256, (3, 2, 18, 18), dtype=torch.uint8)
    seen = Seen(model, prepare, (18, 18)).eval()
    torch.testing.assert_close(seen(images.float() / 255).logits, model(prepare.test(images)).logits)


def test_the_slope_reaches_all_pixels_that_preparation_keeps() -> None:
    model = create_model(
        "pooled_cnn", num_classes=5, in_channels=1, image_size=12, stages=((4,), (4,))
    ).eval()
    images = torch.rand(2, 1, 16, 16, requires_grad=True)
    Seen(model, Preprocess(crop=12), (16, 16))(images).logits[:, 0].sum().backward()
    assert images.grad is not None
    assert images.grad[:, :, 4:12, 4:12].abs().amax() > 0
    assert not images.grad[:, :, 0].any()


@pytest.mark.parametrize(
    ("ours", "theirs", "holds"),
    [
        ([60, 20, 9, 1], [40, 5, 9, 1], True),
        ([60, 9, 9, 1], [40, 9, 9, 1], None),  # one of four may be chance
        ([60, 20, 9, 1], [40, 5, 30, 1], None),
        ([40, 11, 9, 1], [60, 10, 9, 1], False),
        ([50, 20, 9, 9], [43, 15, 9, 8], False),  # all within two standard errors
    ],
)
def test_a_lead_counts_where_it_is_more_than_chance(
    ours: list[float], theirs: list[float], holds: bool | None
) -> None:
    figures = {CAPS: {"epsilon": [0.1, 0.2, 0.3, 0.4], "count": 100, "bim": ours}, BASE: {"bim": theirs}}
    assert compared(figures, "bim")[0] is holds


def test_attacks_have_a_figure_for_every_epsilon(tmp_path: Path) -> None:
    study = Study(tmp_path, quick=True)
    model, other = (create_model("pooled_cnn", image_size=17, stages=((4,), (4,))).eval() for _ in range(2))
    images, labels = torch.rand(4, 1, 17, 17), torch.tensor([1, 0, 9, 4])
    found = attack(study, "it", model, other, images, labels)
    assert all(len(found[kind]) == len(found["epsilon"]) for kind in (*PANELS, "pgd"))
    assert found["pgd"][1] is not None, "the table is about this ε"
    assert found["zero_images"] == 0
    # Stopped before the last ε, it goes on there.
    kept = sorted((tmp_path / "cache").glob("attacks*.json"))
    assert len(kept) == len(found["epsilon"])
    kept[-1].unlink()
    assert attack(study, "it", model, other, images, labels) == found


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(find_claim("adversarial"), tmp_path, quick=True)
    numbers = result["numbers"]
    assert result["status"] == "ended"
    assert min(numbers[f"{name}.clean"] for name in (CAPS, BASE)) > 90
    # What of the claim is true here: one long step towards a given class seldom gets there.
    assert numbers[f"{CAPS}.targeted.0.3"] < numbers[f"{BASE}.targeted.0.3"] - 10
    assert numbers[f"{CAPS}.bim.0.2"] <= numbers[f"{CAPS}.fgsm.0.2"], "many steps are the stronger attack"
    assert len(result["verdicts"]) == 4
    for name in ("curves", "images"):
        assert (tmp_path / f"{name}.png").is_file()
        assert (tmp_path / f"{name}.svg").is_file()
    assert (tmp_path / "report.html").is_file()
