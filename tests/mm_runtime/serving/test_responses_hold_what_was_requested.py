"""Clients of the language model get the outputs they name, and every token once, however joined."""

import queue
import threading
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
from numpy.typing import NDArray

from mm_runtime.serving.generate.generation import ANSWERS
from support.ensemble import DEADLINE_SECONDS
from support.served import Served

pytestmark = pytest.mark.triton

Response = dict[str, NDArray[Any]]
TOKENS = 200
STREAMS = 8
TYPES = {"BOOL": np.bool_, "INT32": np.int32}


def query(
    served: Served, *outputs: str, streaming: bool = True, tokens: int = TOKENS
) -> list[Response]:
    """Return the responses to a prompt that no end token ends; none named: all outputs."""
    values = {
        "input_ids": ("INT32", [5, 6, 7]),
        "input_lengths": ("INT32", [3]),
        "request_output_len": ("INT32", [tokens]),
        "end_id": ("INT32", [-1]),
        "return_log_probs": ("BOOL", [True]),
        "streaming": ("BOOL", [streaming]),
    }
    inputs = []
    for name, (kind, value) in values.items():
        array = np.array([value], dtype=TYPES[kind])
        inputs.append(triton.InferInput(name, list(array.shape), kind))
        inputs[-1].set_data_from_numpy(array)
    came: queue.Queue[tuple[Any, Any]] = queue.Queue()
    found: list[Response] = []
    with triton.InferenceServerClient(served.grpc_url) as client:
        client.start_stream(callback=lambda result, error: came.put((result, error)))
        client.async_stream_infer(
            "tensorrt_llm",
            inputs,
            outputs=[triton.InferRequestedOutput(name) for name in outputs] or None,
            enable_empty_final_response=True,
        )
        while True:
            result, error = came.get(timeout=DEADLINE_SECONDS)
            assert error is None, error
            response = result.get_response()
            if response.outputs:
                found.append({one.name: result.as_numpy(one.name) for one in response.outputs})
            if response.parameters["triton_final_response"].bool_param:
                return found


def tokens_of(response: Response) -> list[int]:
    tokens: list[int] = response["output_ids"][0, 0, : response["sequence_length"].item()].tolist()
    return tokens


@pytest.mark.parametrize("streaming", [False, True], ids=["at-once", "streamed"])
@pytest.mark.parametrize(
    "named", [(), ("output_ids", "sequence_length"), ("is_last",)], ids=["all", "two", "one"]
)
def test_outputs_are_those_that_were_named(
    served: Served, named: tuple[str, ...], *, streaming: bool
) -> None:
    """Without names a client gets all that this engine makes."""
    found = query(served, *named, streaming=streaming, tokens=6)
    assert {frozenset(named or ANSWERS)} == {frozenset(response) for response in found}


def test_tokens_come_once_and_in_order(served: Served) -> None:
    """Eight streams at once, faster than they are sent: tokens, those before, values, the end."""
    expected = tokens_of(query(served, streaming=False)[0])
    answers: list[list[Response]] = []
    threads = [
        threading.Thread(target=lambda: answers.append(query(served))) for _ in range(STREAMS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    assert (len(expected), len(answers)) == (TOKENS, STREAMS)
    for responses in answers:
        so_far: list[int] = []
        for number, response in enumerate(responses, start=1):
            new = tokens_of(response)
            assert (so_far or [-1]) == response["previous_ids"][0, 0].tolist()
            assert len(new) == response["output_log_probs"].shape[-1]
            assert (number == len(responses)) == response["is_last"].item()
            so_far += new
        assert expected == so_far
