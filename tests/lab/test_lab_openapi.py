"""Generated requests: responses match the OpenAPI document, and none is a server error."""

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from support.lab_models import untrained_store
from torchcaps.lab.server import create_app

CHECKS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
# Generating 784 pixels one by one is slow, so the health checks for speed and size are off.
BASE = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
TIMEOUT = 120  # seconds; speed is not tested here

schema = schemathesis.openapi.from_asgi("/openapi.json", create_app(untrained_store()))


@schema.parametrize()
@settings(BASE, max_examples=10)
def test_generated_requests(case: schemathesis.Case) -> None:
    case.call_and_validate(checks=CHECKS, timeout=TIMEOUT)


@pytest.mark.slow
@schema.parametrize()
@settings(BASE, max_examples=100)
def test_many_generated_requests(case: schemathesis.Case) -> None:
    case.call_and_validate(checks=CHECKS, timeout=TIMEOUT)
