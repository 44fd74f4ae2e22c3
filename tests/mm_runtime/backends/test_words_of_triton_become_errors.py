"""What Triton says of a failed request is the request's fault, the moment's or the server's."""

import pytest

from mm_edge.errors import GatewayError, InvalidRequestError
from mm_runtime.backends.triton_server.engine import reported_error
from mm_runtime.gateway.errors import EngineFailedError, EngineUnavailableError


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("in ensemble 'ensemble', INVALID_ARGUMENT: beam_width is 2", InvalidRequestError),
        ("UNAVAILABLE: the engine stops", EngineUnavailableError),
        ("[request id: a] Exceeds maximum queue size for model 'b'", EngineUnavailableError),
        ("Server not ready", EngineUnavailableError),
        (
            "in ensemble 'ensemble', Stub process 'preprocessing_0_0' is not healthy.",
            EngineUnavailableError,
        ),
        ("Request for unknown model: 'ensemble' is not found", EngineUnavailableError),
        ("CUDA error at INVALID_ARGUMENT: secret", EngineFailedError),
    ],
)
def test_words_become_errors(message: str, kind: type[GatewayError]) -> None:
    reported = reported_error("ensemble", message)
    assert kind is type(reported)
    assert "secret" not in reported.message
    assert "ensemble" not in reported.message
