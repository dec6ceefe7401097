from __future__ import annotations

from typing import Any

import pytest
import torch

from torchcaps import create_model
from torchcaps._compiling import INLINE_VOTES


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({}, {"options": INLINE_VOTES}),
        ({"fullgraph": True}, {"fullgraph": True, "options": INLINE_VOTES}),
        ({"mode": "reduce-overhead"}, {"mode": "reduce-overhead"}),
        ({"backend": "eager"}, {"backend": "eager"}),
        ({"options": {"max_autotune": True}}, {"options": {"max_autotune": True}}),
    ],
)
def test_a_network_compiles_with_votes_inlined_unless_told_otherwise(
    given: dict[str, Any], taken: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(torch, "compile", lambda function, **options: seen.append(options) or function)
    create_model("pooled_cnn", stages=[[4], [4]]).compile(**given)
    assert seen == [taken]


def test_a_compiled_network_says_the_same() -> None:
    model = create_model("capsnet_small", channels=4, types=2, decoder=None).eval()
    images = torch.rand(2, 1, 28, 28)
    plain = model(images).scores
    model.compile(backend="eager")
    torch.testing.assert_close(model(images).scores, plain)
