"""Requests of upstream's `tools/multimodal/client.py`, tensor by tensor, over real tritonclient.

And the knobs of its fill_template.py: queue delay and instance counts of `spec.runtime.triton`.

The client requests entire answers by ModelInfer and for streams by ModelStreamInfer. Triton takes
ModelInfer only for models that cannot stream, upstream's and ours alike.
"""

import json
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton
from openai import OpenAI
from PIL import Image
from prometheus_client.parser import text_string_to_metric_families
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from mm_api.metrics import EXECUTING_REQUESTS
from mm_runtime.serving.preprocess.processors.squares import SquareProcessor
from support.build_plans import change_serving
from support.pieces import are_tokens
from support.real_gateway import gateway_before
from support.served import Served, start_serving
from support.tiny_llava import CHECKPOINT, IMAGES, BuiltEngine

pytestmark = pytest.mark.triton

SECONDS = 60
QUESTION = "What is in the image?"
GREETING = "i answer questions about shapes"


def arguments(**given: object) -> dict[str, Any]:
    """Return the tensors that client.py sends for its defaults and these flags.

    Always: text_input, max_tokens, beam_width, end_id, pad_id, top_k, temperature, top_p, stream,
    repetition_penalty; image_input as its processor makes it for `--model_type llava`.
    """
    preprocess = SquareProcessor.from_folder(CHECKPOINT)
    pixels = preprocess.values_of([Image.open(IMAGES / "red-square.png")]).astype(np.float16)
    return {
        "text_input": np.array([[QUESTION.encode()]], dtype=np.object_),
        "max_tokens": np.array([[3]], dtype=np.int32),
        "beam_width": np.array([[1]], dtype=np.int32),
        "end_id": np.array([[-1]], dtype=np.int32),
        "pad_id": np.array([[1]], dtype=np.int32),
        "top_k": np.array([[1]], dtype=np.int32),
        "temperature": np.array([[1.0]], dtype=np.float32),
        "top_p": np.array([[0.0]], dtype=np.float32),
        "repetition_penalty": np.array([[1.0]], dtype=np.float32),
        "stream": np.array([[False]]),
        "image_input": pixels[np.newaxis],
        **given,
    }


def inputs(tensors: dict[str, Any]) -> list[triton.InferInput]:
    made = []
    for name, array in tensors.items():
        one = triton.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        made.append(one.set_data_from_numpy(array))
    return made


@pytest.fixture(scope="module")
def serving_at_once(built_engine: BuiltEngine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    serving = tmp_path_factory.mktemp("complete") / "serving.json"
    shutil.copy(built_engine.serving, serving)
    change_serving(serving, streaming=False, bls_instances=2)
    return serving


@pytest.fixture(scope="module")
def complete(built_engine: BuiltEngine, serving_at_once: Path) -> Iterator[Served]:
    with start_serving(built_engine.manifest, serving_at_once) as server:
        server.wait_until_ready()
        yield server


@pytest.mark.slow
def test_answers_at_once(complete: Served, model: str) -> None:
    """Without `--streaming`, with and without `--use_bls`: ModelInfer, and the same by HTTP."""
    with triton.InferenceServerClient(complete.grpc_url) as client:
        result = client.infer(model, inputs(arguments()), client_timeout=SECONDS)
    assert result.as_numpy("text_output").ravel().tolist() == [b"a red square"]
    tensors = (("text_input", "BYTES", "Hello!"), ("max_tokens", "INT32", 24))
    body = [{"name": a, "shape": [1, 1], "datatype": b, "data": [c]} for a, b, c in tensors]
    url = f"{complete.http_url}/v2/models/{model}"
    answer = httpx.post(f"{url}/infer", json={"inputs": body}, timeout=SECONDS).json()
    [text] = [one for one in answer["outputs"] if one["name"] == "text_output"]
    requested = {"text_input": "Hello!", "max_tokens": 24}
    said, event = (
        httpx.post(f"{url}/{call}", json=requested, timeout=SECONDS).text.removeprefix("data: ")
        for call in ("generate", "generate_stream")
    )
    texts = [*text["data"], *(json.loads(one)["text_output"] for one in (said, event))]
    assert texts == [GREETING] * 3


@pytest.mark.slow
def test_streams_are_refused_where_there_are_none(complete: Served, model: str) -> None:
    """A mistake is refused with its code and words by ModelInfer too."""
    tensors = arguments(stream=np.array([[True]]))
    with (
        triton.InferenceServerClient(complete.grpc_url) as client,
        pytest.raises(InferenceServerException, match="models do not stream") as refused,
    ):
        client.infer(model, inputs(tensors), client_timeout=SECONDS)
    assert "StatusCode.INVALID_ARGUMENT" == refused.value.status()  # noqa: SIM300


@pytest.mark.slow
def test_the_gateway_streams_all_the_same(
    built_engine: BuiltEngine, complete: Served, serving_at_once: Path, tmp_path: Path
) -> None:
    engine = replace(built_engine, serving=serving_at_once)
    message = {"role": "user", "content": "Hello!"}
    with (
        gateway_before(engine, complete.grpc_url, tmp_path) as url,
        OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=SECONDS) as client,
    ):
        stream = client.chat.completions.create(model="tiny", messages=[message], stream=True)
        pieces = [chunk.choices[0].delta.content for chunk in stream]
    assert are_tokens([piece or "" for piece in pieces], re.findall(" ?[a-z]+", GREETING))


STREAMS = 6
STREAMED = {"text_input": "Hello!", "max_tokens": 24, "stream": True}
COUNTS = {"preprocessing_instance_count": 2, "postprocessing_instance_count": 4}


def _streamed(url: str) -> str:
    answer = httpx.post(f"{url}/v2/models/ensemble/generate_stream", json=STREAMED, timeout=SECONDS)
    lines = answer.raise_for_status().text.splitlines()
    return "".join(json.loads(line.removeprefix("data: "))["text_output"] for line in lines if line)


def test_requests_wait_for_a_batch_and_streams_keep_their_order(
    built_engine: BuiltEngine, tmp_path: Path
) -> None:
    """Requests of one moment run together; each of several processes is counted by itself."""
    serving = Path(shutil.copy(built_engine.serving, tmp_path))
    change_serving(serving, max_queue_delay_microseconds=1_000_000, **COUNTS)
    with start_serving(built_engine.manifest, serving) as server:
        server.wait_until_ready()
        with ThreadPoolExecutor(STREAMS) as threads:
            texts = set(threads.map(_streamed, [server.http_url] * STREAMS))
        page = httpx.get(f"{server.metrics_url}/metrics", timeout=SECONDS).text
    assert texts == {GREETING}
    samples = [one for family in text_string_to_metric_families(page) for one in family.samples]
    counted = [one for one in samples if one.name == "nv_inference_exec_count_total"]
    runs = {one.labels["triton_model"]: one.value for one in counted}
    assert max(runs["preprocessing"], runs["tensorrt_llm"]) < STREAMS
    stages = {one.labels["stage"] for one in samples if one.name == EXECUTING_REQUESTS.name}
    assert stages == {"preprocessing_0", "preprocessing_0_1", "encoding"}
