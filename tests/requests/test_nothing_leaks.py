"""After ten thousand requests the server holds what it held before, and it stops in good order."""

import os
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest

from support.ensemble import DEADLINE_SECONDS, Ensemble, EnsembleError
from support.image_host import ImageHost
from support.served import Served, start_serving
from support.tiny_llava import BuiltEngine

pytestmark = [pytest.mark.triton, pytest.mark.slow, pytest.mark.timeout(3600)]

REQUESTS = int(os.environ.get("MM_LEAK_REQUESTS", "10000"))
CLIENTS = 8
WARM_UP = 200
"""Requests before the first count: regions and pools have their size after these."""

TRIES = 5
"""The time for an image is short in this folder: a busy machine may need another try."""

ACTIVE = 'nv_trt_llm_request_metrics{request_type="active",'
QUESTION = "What is in the image?"


def _children(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += _children(int(child))
    return found


def _counts(served: Served) -> dict[str, int]:
    """Return open files of all processes, regions of shared memory and their bytes, and slots."""
    pids = _children(served.process.pid)
    page = httpx.get(f"{served.metrics_url}/metrics", timeout=30).text
    active = next(float(x.rsplit(" ", 1)[1]) for x in page.splitlines() if x.startswith(ACTIVE))
    maps = {
        line.split()[-1]
        for pid in pids
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines()
        if "/dev/shm/" in line
    }
    return {
        "processes": len(pids),
        "files": sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids),
        "regions": len(maps),
        "region bytes": sum(Path(one).stat().st_size for one in maps if Path(one).exists()),
        "slots": int(active),
    }


def _settled(served: Served) -> dict[str, int]:
    """Return counts once no slot is taken and closed connections have been noticed."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    counts = _counts(served)
    while True:
        time.sleep(1)
        again = _counts(served)
        if again == counts and not again["slots"]:
            return again
        assert time.monotonic() < deadline, again
        counts = again


def _kinds(served: Served, host: ImageHost) -> list[Callable[[str], None]]:

    def good(model: str) -> None:
        with Ensemble(served.grpc_url, model) as client:
            client.query("Hello!", stream=bool(random.getrandbits(1)), max_tokens=4)

    def image(model: str) -> None:
        with Ensemble(served.grpc_url, model) as client:
            for more in reversed(range(TRIES)):
                try:
                    client.query(QUESTION, image_url_input=host.url("red-square.png"), max_tokens=4)
                except EnsembleError as error:
                    if not more or "the image was not fetched within" not in str(error):
                        raise
                else:
                    return

    def refused(model: str) -> None:
        values: dict[str, object] = random.choice(  # noqa: S311 (no secret)
            [
                {"beam_width": 2},
                {"image_url_input": "data:image/png;base64,AAAA"},
                {"image_url_input": host.url("page")},
                {"image_input": np.full((1, 1, 3, 56, 56), np.nan, np.float16)},
            ]
        )
        with Ensemble(served.grpc_url, model) as client, pytest.raises(EnsembleError):
            client.query(QUESTION, max_tokens=4, **values)

    def broken(model: str) -> None:
        body = {"text_input": QUESTION}
        url = f"{served.http_url}/v2/models/{model}/generate"
        assert httpx.post(url, json=body, timeout=60).status_code == httpx.codes.BAD_REQUEST

    def gone(_: str) -> None:
        # By the BLS model only: Triton 2.51 keeps an ensemble's request whose stream was cut.
        client = Ensemble(served.grpc_url, "tensorrt_llm_bls")
        client.send("Hello!", stream=True, end_id=-1, max_tokens=200)
        client.wait_for_a_piece()
        client.close()

    return [good, good, good, image, refused, broken, gone]


def _load(served: Served, host: ImageHost, count: int) -> None:
    kinds, lock = _kinds(served, host), threading.Lock()
    left = iter(range(count))

    def work() -> None:
        while True:
            with lock:
                number = next(left, None)
            if number is None:
                return
            model = ("ensemble", "tensorrt_llm_bls")[number % 2]
            kinds[number % len(kinds)](model)

    with ThreadPoolExecutor(CLIENTS) as clients:
        for one in [clients.submit(work) for _ in range(CLIENTS)]:
            one.result()


def test_counts_are_what_they_were(served: Served, host: ImageHost) -> None:
    """Processes, slots and regions are the same; open files too, but for Triton's own pool."""
    _load(served, host, WARM_UP)
    before = _settled(served)
    _load(served, host, REQUESTS)
    after = _settled(served)
    slack = 2 * CLIENTS  # gRPC keeps threads and their descriptors for as many calls as ever met
    assert after["files"] <= before["files"] + slack
    assert {**before, "files": 0} == {**after, "files": 0}
    with Ensemble(served.grpc_url) as client:
        assert "i answer questions about shapes" == client.query("Hello!").text  # noqa: SIM300


def test_no_process_crashes_when_the_server_stops(
    built_engine: BuiltEngine, host: ImageHost
) -> None:
    """Entire answers, streams and refusals were there; exit code 0, and no crash in the log."""
    with start_serving(built_engine.manifest, built_engine.serving) as served:
        served.wait_until_ready()
        for model in ("ensemble", "tensorrt_llm_bls"):
            with Ensemble(served.grpc_url, model) as client:
                client.query(QUESTION, image_url_input=host.url("red-square.png"), max_tokens=4)
                client.query("Hello!", stream=True, max_tokens=4)
        served.terminate()
        assert served.wait() == 0, served.log
        assert "Fatal Python error" not in served.log, served.log
