"""`tensorrt_llm_bls` takes the ensemble's requests and gives the ensemble's answers."""

import shutil
from collections.abc import Iterator
from itertools import accumulate

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from support.build_plans import change_serving
from support.ensemble import DEADLINE_SECONDS, Ensemble, EnsembleError, order_of_streams
from support.eventually import eventually
from support.pieces import are_tokens
from support.served import Served, start_serving
from support.tiny_llava import IMAGES, BuiltEngine

pytestmark = pytest.mark.triton

QUESTION = "What is in the image?"
TOKENS = ("a", " red", " square")
ENDLESS = {"end_id": -1, "max_tokens": 900}
STREAMS = 12
"""More than its four instances: the others wait in Triton's queue."""

ACTIVE = 'nv_trt_llm_request_metrics{request_type="active",'


@pytest.fixture
def bls(served: Served) -> Iterator[Ensemble]:
    with Ensemble(served.grpc_url, "tensorrt_llm_bls") as client:
        yield client


def _pixels(name: str = "red-square.png") -> NDArray[np.uint8]:
    return np.asarray(Image.open(IMAGES / name))[np.newaxis, np.newaxis]


def _active(served: Served) -> float:
    page = httpx.get(f"{served.metrics_url}/metrics", timeout=60).text
    return next(float(x.rsplit(" ", 1)[1]) for x in page.splitlines() if x.startswith(ACTIVE))


def _wait_active(served: Served, expected: float) -> None:
    eventually(
        lambda: _active(served) == expected,
        seconds=DEADLINE_SECONDS,
        pause_seconds=0.02,
        showing=lambda: _active(served),
    )


def test_errors_keep_their_words(bls: Ensemble) -> None:
    """Whichever model refuses, the client reads why; the same stream then gets an answer.

    Others: test_mistakes_have_codes.py, by both models.
    """
    for values, message in (
        ({"num_draft_tokens": 2}, "there is no draft model"),
        ({"lora_task_id": 1}, "lora_task_id 1 is unknown"),
    ):
        with pytest.raises(EnsembleError, match=message):
            bls.query("Hello!", **values)
    assert "i answer questions about shapes" == bls.query("Hello!").text  # noqa: SIM300


def test_log_probabilities_are_the_ensembles(served: Served) -> None:
    """An answer that travelled in pieces holds what one that came entire holds."""
    found = []
    for model in ("ensemble", "tensorrt_llm_bls"):
        with Ensemble(served.grpc_url, model) as client:
            values = {"return_log_probs": True, "return_generation_logits": True}
            [outputs] = client.query("Hello!", **values).outputs
            found.append({name: outputs[name] for name in outputs if name != "text_output"})
    ensemble, bls = found
    for name in ("cum_log_probs", "output_log_probs", "generation_logits"):
        np.testing.assert_allclose(ensemble[name], bls[name], rtol=1e-4, atol=1e-5)


@pytest.mark.slow  # long streams, and the stall of docs/design/serving.md: once in 25 runs
def test_concurrent_streams_interleave(served: Served) -> None:
    """Streams run side by side when there are several processes; all are answered."""
    order = order_of_streams(served.grpc_url, "tensorrt_llm_bls", STREAMS)
    assert set(range(STREAMS)) == set(order)
    first_end = min(len(order) - order[::-1].index(one) - 1 for one in order)
    assert len({*order[: first_end + 1]}) > 1


@pytest.mark.parametrize("stream", [True, False])
def test_client_that_goes_frees_its_slot(served: Served, stream: bool) -> None:  # noqa: FBT001
    """Streaming or not, no one's answer is not worked on to its end."""
    client = Ensemble(served.grpc_url, "tensorrt_llm_bls")
    client.send("Hello!", stream=stream, **ENDLESS)
    _wait_active(served, 1)
    client.close()
    _wait_active(served, 0)


@pytest.mark.slow
def test_accumulated_streams_repeat_the_entire_text(built_engine: BuiltEngine) -> None:
    """With `accumulateTokens` each response holds all of the text so far; the ensemble's do not."""
    serving = built_engine.serving.with_name("accumulating.json")
    shutil.copy(built_engine.serving, serving)
    change_serving(serving, accumulate_tokens=True)
    with start_serving(built_engine.manifest, serving) as server:
        server.wait_until_ready()
        texts = []
        for model in ("tensorrt_llm_bls", "ensemble"):
            with Ensemble(server.grpc_url, model) as client:
                answer = client.query(QUESTION, image_bytes_input=_pixels(), stream=True)
                texts.append([piece for piece in answer.pieces if piece])
    complete, pieces = texts
    assert complete == sorted(complete, key=len)
    assert set(complete) <= set(accumulate(TOKENS))
    assert (complete[-1], are_tokens(pieces, TOKENS)) == ("".join(TOKENS), True)
