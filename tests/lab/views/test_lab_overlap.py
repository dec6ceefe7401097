from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from torchcaps.lab.introspection import inspect_last_layer
from torchcaps.lab.model_store import load_model_store
from torchcaps.lab.schemas import OverlapRequest
from torchcaps.lab.views import overlap


def test_overlap_returns_the_two_best_classes_of_each_network(
    post: Callable[..., dict[str, Any]], seven: list[list[float]]
) -> None:
    response = post("overlap", image=np.pad(np.array(seven), 4).tolist())
    capsules, cnn = response["capsules"], response["cnn"]
    assert capsules["best"] == np.argsort(capsules["lengths"])[::-1][:2].tolist()
    assert np.shape(capsules["reconstructions"]) == (2, 36, 36)
    assert cnn["best"] == np.argsort(cnn["scores"])[::-1][:2].tolist()
    assert sum(cnn["scores"]) == pytest.approx(1, abs=1e-3)


def test_a_square_has_the_color_of_the_digit_it_sends_more_to(digits: list[dict[str, Any]]) -> None:
    """The map of votes, for 40 pairs: its sign, its largest value, and the factor that the page names."""
    store = load_model_store()
    network = store[overlap.CAPSULES]
    for number in range(40):
        image = np.zeros((36, 36))
        for digit, at in ((digits[number], 1), (digits[79 - number], 7)):
            image[at : at + 28, at : at + 28] += digit["image"]
        pixels = image.clip(0, 1).tolist()
        answer = overlap.recognize(store, OverlapRequest(image=pixels)).capsules
        inspection = inspect_last_layer(network.model, network.prepare(pixels))
        coupling = inspection.layer.history(inspection.children)[-1].coupling
        assert coupling is not None
        length = inspection.children.activation[0]
        each = coupling[0].reshape(*length.shape, -1) * length.unsqueeze(-1)
        one, two = each.sum(2)[..., answer.best].detach().double().numpy().transpose(2, 0, 1)
        lead = np.array(answer.lead)
        clear = np.abs(lead) > 1e-3
        assert (np.sign(lead) == np.sign(one - two))[clear].all()
        assert np.abs(lead).max() == pytest.approx(1, abs=1e-3)
        assert answer.factor == pytest.approx(max((one / two).max(), (two / one).max()), rel=0.01)
    centers = answer.field_centers
    assert centers.size == 17
    corner = centers.first - centers.step / 2 + 0.5  # "only the middle of the picture"
    assert corner > 5
    assert corner + centers.step * len(lead) < 36 - 5
