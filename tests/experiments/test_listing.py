from __future__ import annotations

import pytest

from torchcaps.experiments.listing import MODULES, find_claim, list_claims


def test_every_claim_is_complete() -> None:
    claims = list_claims()
    assert [claim.name for claim in claims] == list(MODULES)
    for claim in claims:
        assert claim.claim
        assert claim.source
        assert claim.data
        assert claim.quick_data
        assert claim.minutes > 0


def test_error_suggests_a_similar_name() -> None:
    with pytest.raises(ValueError, match="did you mean 'viewpoints'"):
        find_claim("viewpoint")
