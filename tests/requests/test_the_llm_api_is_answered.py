"""Triton model `llmapi`: what clients of TensorRT-LLM's LLM API in Triton send and get."""

import json
import subprocess
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton

from support.cases import cases
from support.image_host import ImageHost
from support.served import Served

pytestmark = pytest.mark.triton

PROGRAM = Path(__file__).parents[2] / "examples" / "triton-2026" / "requests.sh"
EXCLUDED = {"sampling_param_exclude_input_from_output": True}
WANTED = {"return_finish_reason": True, "return_cumulative_logprob": True}


def query(served: Served, **tensors: Any) -> dict[str, Any]:
    body = {"text_input": "Hello!", **tensors}
    url = f"{served.http_url}/v2/models/llmapi/generate"
    return dict(httpx.post(url, json=body, timeout=120).json())


def test_the_guides_commands(served: Served, host: ImageHost) -> None:
    """One image, two of them, and the same by `generate` and `generate_stream`; by gRPC."""
    model = f"{served.http_url}/v2/models/llmapi"
    images = (host.url("red-square.png"), host.url("big-green-triangle.png"))
    found = []
    for question in ("What is in the image?", "What is in the second image?"):
        command = ["sh", str(PROGRAM), model, question, *images]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
        found.append([json.loads(x.removeprefix("data: ")) for x in done.stdout.split("\n") if x])
    (one, _, generated, streamed), (_, two, *_) = found
    answer = {"name": "text_output", "datatype": "BYTES", "shape": [1]}
    assert one["outputs"] == [answer | {"data": ["a red square"]}]
    assert two["outputs"] == [answer | {"data": ["a green triangle"]}]
    assert generated["text_output"] == streamed["text_output"] == "a red square"
    with triton.InferenceServerClient(served.grpc_url) as client:
        text = triton.InferInput("text_input", [1], "BYTES")
        text.set_data_from_numpy(np.array([b"Hello!"], object))
        text_of = client.infer("llmapi", [text], client_timeout=120).as_numpy("text_output")
    assert text_of.tolist() == [b"user : hello ! assistant : i answer questions about shapes"]


@cases(
    "tensors text reason",
    {
        "complete": (EXCLUDED, "i answer questions about shapes", "stop"),
        "cut": ({"sampling_param_max_tokens": 2, **EXCLUDED}, "i answer", "length"),
        "word": ({"sampling_param_stop": ["questions"], **EXCLUDED}, "i answer", "stop"),
        "echo": ({"sampling_param_max_tokens": 1}, "user : hello ! assistant : i", "length"),
    },
)
def test_what_can_be_requested(
    served: Served, tensors: dict[str, Any], text: str, reason: str
) -> None:
    found = query(served, **WANTED, **tensors)
    assert (found["text_output"].strip(), found["finish_reason"]) == (text, reason)
    assert found["cumulative_logprob"] < 0


def test_sampling_acts(served: Served) -> None:
    drawn = {"sampling_param_temperature": 50.0, "sampling_param_top_k": 40, **EXCLUDED}
    one, same, other = (query(served, sampling_param_seed=seed, **drawn) for seed in (1, 1, 2))
    assert one["text_output"] == same["text_output"] != other["text_output"]


@cases(
    "name value words",
    {
        "file": ("image_url", "file:///a", "image_url_input: 'file:///a' is not a URL"),
        "tokens": ("sampling_param_max_tokens", 0, "max_tokens is 0"),
    },
)
def test_what_is_refused(served: Served, name: str, value: Any, words: str) -> None:
    assert words in query(served, **{name: value})["error"]


@pytest.mark.parametrize("name", ["return_stop_reason", "streaming", "stop"])
def test_other_tensors_are_refused_by_name(served: Served, name: str) -> None:
    """Where tensors are sent as such: `generate` leaves out what a model has no input for."""
    tensors = (("text_input", "BYTES", "Hello!"), (name, "BOOL", True))
    inputs = [{"name": a, "datatype": b, "shape": [1], "data": [c]} for a, b, c in tensors]
    url = f"{served.http_url}/v2/models/llmapi/infer"
    refused = httpx.post(url, json={"inputs": inputs}, timeout=120).json()
    assert f"unexpected inference input '{name}'" in refused["error"]
