from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient

from torchcaps.lab.model_store import ModelStore
from torchcaps.training import predict

Image = list[list[float]]
Post = Callable[..., dict[str, Any]]


def test_draw_returns_the_output_of_the_model(post: Post, store: ModelStore, seven: Image) -> None:
    response = post("draw", image=seven)
    model = store["capsnet_small", "mnist"].model
    image = torch.tensor(seven)[None, None]
    output = predict(model, (image * 255).round() / 255)
    np.testing.assert_allclose(response["lengths"], output.scores[0], atol=1e-4)
    np.testing.assert_allclose(response["reconstruction"], output.reconstruction[0, 0], atol=1e-4)
    assert response["best"] == int(output.scores[0].argmax())
    assert response["pose"] == response["poses"][response["best"]]
    assert np.shape(response["poses"]) == (10, 16)


def test_draw_returns_the_couplings_on_the_grid(post: Post, store: ModelStore, seven: Image) -> None:
    response = post("draw", image=seven)
    couplings = np.array(response["couplings"])
    assert response["grid"] == [6, 6]
    assert response["field_centers"] == {"first": 8.0, "step": 2.0, "size": 17}
    assert couplings.shape == (3, 10, 6, 6)
    assert couplings.min() >= 0
    assert couplings.max() == 1
    # The couplings of a child add up to 1, so each position sends the same total at every iteration.
    np.testing.assert_allclose(couplings.sum(1)[0], couplings.sum(1)[-1], atol=2e-3)
    history = store["capsnet_small", "mnist"].model.routing_history(torch.tensor(seven)[None, None])
    last = history[-1].iterations[-1]
    assert last.coupling is not None
    np.testing.assert_allclose(response["lengths"], last.activation[0].detach(), atol=1e-3)


def test_draw_accepts_an_empty_image(post: Post) -> None:
    response = post("draw", image=[[0] * 28] * 28)
    assert np.isfinite(response["lengths"]).all()


def test_tweak_reconstructs_the_given_pose(post: Post, seven: Image) -> None:
    drawn = post("draw", image=seven)
    same = post("tweak", pose=drawn["pose"], target=drawn["best"])
    np.testing.assert_allclose(same["reconstruction"], drawn["reconstruction"], atol=1e-3)
    other = post("tweak", pose=[0.25] * 16, target=drawn["best"])
    assert other != same


def test_the_votes_of_a_capsule_make_the_digit_capsules(post: Post, seven: Image) -> None:
    """The loop: shares times votes, summed and squashed, are the digit capsules; products make the shares."""
    drawn = post("draw", image=seven)
    totals = np.zeros((3, 10, 16))
    for row, column, kind in np.ndindex(6, 6, 8):
        capsule = post("capsule", image=seven, row=row, column=column, type=kind)
        assert [capsule[name] for name in ("row", "column", "type")] == [row, column, kind]
        assert capsule["length"] == pytest.approx(drawn["primary"][kind][row][column], abs=1e-3)
        votes, products = np.array(capsule["votes"]), np.array(capsule["products"])
        np.testing.assert_allclose(products, (votes * drawn["history"]).sum(2), atol=2e-3)
        for at, shares in enumerate(capsule["shares"]):
            assert sum(shares) == pytest.approx(1, abs=1e-3)
            sums = np.exp(products[:at].sum(0))
            np.testing.assert_allclose(sums / sums.sum(), shares, atol=1e-3)
            totals[at] += np.array(shares)[:, None] * votes
    norm = np.linalg.norm(totals, axis=2, keepdims=True)
    np.testing.assert_allclose(totals * norm / (1 + norm**2), drawn["history"], atol=5e-3)
    assert drawn["history"][-1] == drawn["poses"]


def test_draw_shows_the_capsule_that_sends_most_to_the_longest(post: Post, seven: Image) -> None:
    drawn = post("draw", image=seven)
    shown, best = drawn["capsule"], drawn["best"]
    place = {name: shown[name] for name in ("row", "column", "type")}
    assert post("capsule", image=seven, **place) == shown
    others = [
        post("capsule", image=seven, row=row, column=column, type=kind)["shares"][-1][best]
        for row, column, kind in np.ndindex(6, 6, 8)
    ]
    assert shown["shares"][-1][best] == max(others)


def test_a_capsule_outside_the_grid_is_refused(client: TestClient, seven: Image) -> None:
    response = client.post("/api/capsule", json={"image": seven, "row": 6, "column": 0, "type": 0})
    assert response.status_code == 400
    assert "(6, 6, 8)" in response.json()["detail"]
