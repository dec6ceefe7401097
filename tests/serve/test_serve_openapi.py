"""Generated requests: responses match the OpenAPI document, and none is a server error."""

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from torchcaps.models.weights import ModelCard
from torchcaps.serve.server import create_app
from torchcaps.training.prediction import Predictor

CHECKS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
CARD = ModelCard("pooled_cnn", {}, 3, 1, (16, 16), ("cat", "dog", "cow"))
APP = create_app(Predictor(CARD.build(), CARD))

schema = schemathesis.openapi.from_asgi("/openapi.json", APP)


@schema.parametrize()
@settings(
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=15,
    suppress_health_check=list(HealthCheck),
)
def test_generated_requests(case: schemathesis.Case) -> None:
    case.call_and_validate(checks=CHECKS, timeout=120)


def test_the_document_describes_all_forms_of_a_request() -> None:
    document = APP.openapi()
    content = document["paths"]["/predict"]["post"]["requestBody"]["content"]
    assert set(content) == {"application/json", "image/png", "image/jpeg"}
    assert document["components"]["schemas"]["PredictRequest"]["properties"]["images"]["maxItems"] == 64
    assert {"413", "422", "500", "503"} <= set(document["paths"]["/predict"]["post"]["responses"])
