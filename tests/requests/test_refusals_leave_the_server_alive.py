"""Requests that the models refuse cost the server nothing, however many the gateway sends."""

import asyncio

import pytest

from mm_runtime.backends.triton_server.engine import TritonEngine
from mm_runtime.backends.triton_server.errors import reported_error
from mm_runtime.gateway.backends.engine import EngineRequest, Sampling
from mm_runtime.gateway.errors import (
    EngineFailedError,
    EngineUnavailableError,
    GatewayError,
    InvalidRequestError,
)
from support.served import Served

REFUSED, TOGETHER = 1000, 8
"""With the header `triton_grpc_error` Triton 2.51 died after a few hundred of these."""

REPORTED = (
    "The model refused the request: the prompt has 1 <image> placeholder(s) and the request 0 "
    "image(s); send one image for each placeholder."
)

GREEDY = Sampling(temperature=0, top_p=1, presence_penalty=None, frequency_penalty=None, seed=0)


@pytest.mark.triton
async def test_a_thousand_refusals_end_no_process(served: Served) -> None:
    """Each is reported as the client's mistake, and the same tritonserver answers after them."""
    before = served.log_file.read_text().count("tritonserver ended")
    engine = TritonEngine(served.grpc_url, str)
    left = iter(range(REFUSED))

    async def refused() -> list[str]:
        reported = []
        for number in left:
            request = EngineRequest(
                request_id=f"refused-{number}",
                prompt="<image> what?",
                max_tokens=4,
                sampling=GREEDY,
            )
            with pytest.raises(InvalidRequestError) as error:
                _ = [piece async for piece in engine.generate(request)]
            reported.append(error.value.message)
        return reported

    try:
        lists = await asyncio.gather(*(refused() for _ in range(TOGETHER)))
        assert await engine.is_ready()
    finally:
        await engine.close()
    reported = [one for messages in lists for one in messages]
    assert len(reported) == REFUSED
    assert {REPORTED} == set(reported)
    assert before == served.log_file.read_text().count("tritonserver ended")


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
    """A message is the request's fault, the moment's or the server's, as it begins."""
    reported = reported_error("ensemble", message)
    assert kind is type(reported)
    assert "secret" not in reported.message
    assert "ensemble" not in reported.message
