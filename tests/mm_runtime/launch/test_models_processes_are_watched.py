"""Each model of Triton runs in a process of its own; one that dies costs what was in flight."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image

from mm_runtime.launch.serve import Stubs
from support.encoder_pairs import counted
from support.ended import wait_until_gone
from support.ensemble import Ensemble, EnsembleError
from support.eventually import eventually
from support.served import Served, start_serving
from support.tiny_llava import BuiltEngine, samples, shared_engine

pytestmark = [pytest.mark.slow, pytest.mark.triton, pytest.mark.timeout(300)]

MODELS = ("preprocessing", "multimodal_encoders", "tensorrt_llm", "postprocessing")
LONG = 900


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> BuiltEngine:
    return shared_engine(tmp_path_factory, max_seq_len=1024)


@pytest.fixture
def served(engine: BuiltEngine) -> Iterator[Served]:
    with start_serving(engine.manifest, engine.serving) as server:
        server.wait_until_ready()
        yield server


def process_of(served: Served, model: str) -> int:
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                words = (process / "cmdline").read_text().split("\0")
            except OSError:
                continue
            if f"{served.folder}/repository/{model}/1/model.py" in words:
                return int(process.name)
    raise AssertionError(f"{model} has no process")


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(model, marks=[] if model == "tensorrt_llm" else [pytest.mark.slow])
        for model in MODELS
    ],
)
def test_a_killed_process_costs_what_was_in_flight(served: Served, model: str) -> None:
    def stream(_: int) -> str:
        with Ensemble(served.grpc_url) as client:
            try:
                client.query("What is in the image?", max_tokens=LONG, min_tokens=LONG, stream=True)
            except EnsembleError as error:
                return str(error)
        return "answered"

    with Stubs(served.process.pid) as stubs:
        assert {stubs.name(one) for one in stubs.descriptors} == set(MODELS)
    with ThreadPoolExecutor(3) as pool:
        streams = [pool.submit(stream, number) for number in range(3)]
        eventually(lambda: counted(served, "nv_trt_llm_request_metrics").get("active") == 3)
        os.kill(process_of(served, model), signal.SIGKILL)
        # Without the watch each of them would wait for ever.
        assert all(one.result(60) != "answered" for one in streams)
    eventually(lambda: "it is started again" in served.log)
    served.wait_until_ready(starts=2)
    sample = samples()[0]
    pixels = np.asarray(Image.open(sample.image).convert("RGB"))[np.newaxis, np.newaxis]
    with Ensemble(served.grpc_url) as client:
        assert sample.answer == client.query(sample.question, image_bytes_input=pixels).text
    assert counted(served, "mm_server_restarts_total") == {"": 1.0}
    assert "tritonserver ended unexpectedly" in served.log
    assert httpx.get(f"{served.http_url}/v2/health/ready", timeout=60).is_success


def test_models_end_with_a_server_that_no_one_has_reaped(served: Served) -> None:
    """Triton's own check takes it for a running one, and its models stayed until it was reaped."""
    models = [process_of(served, model) for model in MODELS]
    os.kill(served.process.pid, signal.SIGSTOP)
    try:
        os.kill(served.server_pid, signal.SIGKILL)
        for model in models:
            wait_until_gone(model)
    finally:
        os.kill(served.process.pid, signal.SIGCONT)
