"""Scores of a server whose model computes NaN or infinity are an error, with every backend."""

import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tritonclient.grpc import service_pb2

from mm_runtime.backends.openai_server.client import OpenAiServerEngine
from mm_runtime.backends.pytorch.client import TrtllmServeDialect
from mm_runtime.backends.triton_server.engine import read_scores
from mm_runtime.gateway.api.tool_dialects import HERMES
from mm_runtime.gateway.api.tool_reader import CallReader, Said
from mm_runtime.gateway.backends.engine import LIKELIEST, EngineRequest
from mm_runtime.gateway.errors import EngineFailedError
from mm_runtime.gateway.prompts.templates import Turn
from mm_runtime.repository.configs.scored_ensemble import (
    LIKELIEST_IDS,
    LIKELIEST_LOG_PROBS,
    LOG_PROBS,
)
from mm_runtime.serving.prompts.spelling import Spelled
from support.http_servers import Exchange, serve_local

NO_NUMBERS = [pytest.param(float("nan"), id="nan"), pytest.param(float("inf"), id="infinite")]
EXCLUDED = float("-inf")
"""A probability of 0, which is one."""


def _response(**tensors: NDArray[Any]) -> Any:
    found = service_pb2.ModelInferResponse()
    for name, one in tensors.items():
        kind = "FP32" if one.dtype == np.float32 else "INT32"
        found.outputs.add(name=name, datatype=kind, shape=one.shape)
        found.raw_output_contents.append(one.tobytes())
    return found


def _spell(token: int) -> Spelled:
    return Spelled(f" w{token}", f" w{token}".encode())


def _of_answer(own: float, other: float) -> Any:
    return _response(
        **{
            LOG_PROBS: np.array([[[-0.5, own]]], np.float32),
            LIKELIEST_IDS: np.array([[[1], [2]]], np.int32),
            LIKELIEST_LOG_PROBS: np.array([[[-0.5], [other]]], np.float32),
        }
    )


@pytest.mark.parametrize("number", NO_NUMBERS)
@pytest.mark.parametrize("is_own", [True, False], ids=["own", "other"])
def test_tensors_of_triton(number: float, *, is_own: bool) -> None:
    given = (number, EXCLUDED) if is_own else (EXCLUDED, number)
    with pytest.raises(EngineFailedError):
        read_scores(_of_answer(*given), [1, 2], 1, _spell)
    assert len(read_scores(_of_answer(EXCLUDED, EXCLUDED), [1, 2], 1, _spell)) == 2


@pytest.mark.parametrize("number", [*NO_NUMBERS, pytest.param(None, id="absent")])
async def test_events_of_trtllm_serve(number: float | None) -> None:
    """Python's JSON, which it writes with, has NaN; its events are read and refused."""
    scored = {"token": "a", "bytes": [97], "logprob": number, "top_logprobs": []}
    delta = {"index": 0, "delta": {"content": "a"}, "logprobs": {"content": [scored]}}
    end = {"index": 0, "delta": {}, "finish_reason": "stop"}
    events = ({"choices": [delta]}, {"choices": [end], "usage": {"completion_tokens": 1}})

    async def answer(exchange: Exchange) -> None:
        lines = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
        await exchange.answer(200, lines.encode(), **{"content-type": "text/event-stream"})

    request = EngineRequest(
        request_id="a",
        prompt="a",
        max_tokens=1,
        sampling=LIKELIEST,
        turns=(Turn("user", ("a",)),),
        likeliest=0,
    )
    async with serve_local(answer) as server:
        engine = OpenAiServerEngine(
            f"127.0.0.1:{server.port}", TrtllmServeDialect("model"), request_seconds=60
        )
        with pytest.raises(EngineFailedError, match="failed on this request"):
            [event async for event in engine.generate(request)]
        await engine.close()


def test_arguments_of_a_call() -> None:
    """A call that is no JSON stays text: clients' parsers would fail on its arguments."""
    text = '<tool_call>{"arguments": {"x": NaN}, "name": "f"}</tool_call>'
    reader = CallReader(HERMES)
    parts = [*reader.push(text), *reader.end()]
    assert text == "".join(part.text for part in parts if isinstance(part, Said))
