"""Concurrent streams of the real server interleave, and a client that goes frees its slot."""

import threading

import httpx
import numpy as np
import pytest
from PIL import Image

from support.ensemble import DEADLINE_SECONDS, Ensemble, query_all
from support.eventually import eventually
from support.served import Served
from support.tiny_llava import samples

pytestmark = pytest.mark.triton

STREAMS = 8
LONG = 900
ACTIVE = 'nv_trt_llm_request_metrics{request_type="active",'
ENDLESS = {"end_id": -1, "min_tokens": 100, "max_tokens": 100, "stream": True}


def _metric(served: Served, name: str) -> float:
    """Return the one value of a metric with these labels."""
    page = httpx.get(f"http://127.0.0.1:{served.metrics}/metrics", timeout=60).text
    values = [line.rsplit(" ", 1)[1] for line in page.splitlines() if line.startswith(name)]
    assert len(values) == 1, page
    return float(values[0])


def _executions(served: Served) -> float:
    """Return how many pieces became text."""
    return _metric(served, 'nv_inference_count{triton_model="postprocessing"')


def _active(served: Served) -> float:
    """Return the number of requests whose stream is open."""
    return _metric(served, ACTIVE)


def _wait_active(served: Served, expected: float) -> None:
    eventually(
        lambda: _active(served) == expected,
        seconds=DEADLINE_SECONDS,
        pause_seconds=0.02,
        showing=lambda: _active(served),
    )


def test_concurrent_streams_interleave(served: Served) -> None:
    """Eight answers of 400 tokens: every stream has begun before the first one ends."""
    order: list[int] = []
    # Connecting takes about as long as 100 tokens: without waiting, the first could end before.
    connected = threading.Barrier(STREAMS, timeout=DEADLINE_SECONDS)
    tokens = {"end_id": -1, "min_tokens": 400, "max_tokens": 400, "stream": True}

    def query(number: int) -> None:
        with Ensemble(served.grpc_url) as ensemble:
            connected.wait()
            ensemble.query("Hello!", on_piece=lambda _: order.append(number), **tokens)

    threads = [threading.Thread(target=query, args=(number,)) for number in range(STREAMS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    first_end = min(len(order) - order[::-1].index(number) - 1 for number in range(STREAMS))
    last_start = max(order.index(number) for number in range(STREAMS))
    assert last_start < first_end


def test_concurrent_answers_are_right(served: Served) -> None:
    """Questions on different images at the same time do not mix."""
    requested = samples()
    questions = [
        (
            sample.question,
            {"image_bytes_input": np.asarray(Image.open(sample.image))[None, None]},
        )
        for sample in requested
    ]
    answers = query_all(served.grpc_url, questions)
    assert [sample.answer for sample in requested] == [answer.text for answer in answers]


def test_client_that_goes_frees_its_slots(served: Served) -> None:
    """Eight long streams are cut after their first piece, and the engine stops working on them.

    Each piece is one execution of postprocessing: without cancellation all of them would come.
    """
    before = _executions(served)
    clients = [Ensemble(served.grpc_url) for _ in range(STREAMS)]
    for client in clients:
        client.send("Hello!", **{**ENDLESS, "min_tokens": LONG, "max_tokens": LONG})
    for client in clients:
        client.wait_for_a_piece()
    for client in clients:
        client.close()
    _wait_active(served, 0)
    assert _executions(served) - before < STREAMS * LONG * 0.9
    with Ensemble(served.grpc_url) as ensemble:
        assert "i answer questions about shapes" == ensemble.query("Hello!").text  # noqa: SIM300


def test_steps_are_counted_by_their_size(served: Served) -> None:
    """An answer of 30 tokens is 29 decoding steps of one request, or fewer of several."""
    name = "mm_decode_batch_requests_sum"
    before = _metric(served, name)
    with Ensemble(served.grpc_url) as ensemble:
        ensemble.query("Hello!", **{**ENDLESS, "min_tokens": 30, "max_tokens": 30})
    eventually(
        lambda: _metric(served, name) >= before + 29, seconds=DEADLINE_SECONDS, pause_seconds=0.1
    )
