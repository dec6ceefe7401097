"""The OpenAPI document is kept: whatever it allows or forbids is answered as it says, and never by a 500."""

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from lab_models import untrained_shelf
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from torchcaps.lab.server import create_app

CHECKS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
# Drawing 784 pixels one by one is slow and not what is asked here.
BASE = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


PATIENCE = 120  # seconds; how fast it is, is not asked here

schema = schemathesis.openapi.from_asgi("/openapi.json", create_app(untrained_shelf()))


@schema.parametrize()
@settings(BASE, max_examples=10)
def test_no_request_breaks_the_server(case: schemathesis.Case) -> None:
    case.call_and_validate(checks=CHECKS, timeout=PATIENCE)


@pytest.mark.slow
@schema.parametrize()
@settings(BASE, max_examples=100)
def test_no_request_of_many_breaks_the_server(case: schemathesis.Case) -> None:
    case.call_and_validate(checks=CHECKS, timeout=PATIENCE)
