"""Tensors of TensorRT-LLM's LLM API in Triton: model `llmapi`, and `tensorrt_llm` of PyTorch.

PyTorch's has a stand-in for `tensorrt_llm`, with the signatures of 1.2.1; the server is the real
tritonserver.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton

from support.cases import cases
from support.image_host import ImageHost
from support.served import Served
from support.trtllm_pods import TrtllmPod, staged_engine, trtllm_pod
from support.trtllm_tools.install import install

pytestmark = pytest.mark.triton

PROGRAM = Path(__file__).parents[2] / "examples" / "triton-2026" / "requests.sh"
EXCLUDED = {"sampling_param_exclude_input_from_output": True}
WANTED = {"return_finish_reason": True, "return_cumulative_logprob": True}


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrtllmPod]:
    """A pod of backend PyTorch with `runtime.triton.expose`."""
    folder, version = tmp_path_factory.mktemp("pod"), "1.2.1"
    engine = staged_engine(folder, version, images=2, runtime={"triton": {"expose": True}})
    hosts: dict[str, Any] = {"allowed_hosts": ["localhost"], "allow_private_networks": True}
    with trtllm_pod(engine, install(folder / "tools", version), folder, **hosts) as running:
        yield running


def query(served: Served, model: str = "llmapi", **tensors: Any) -> dict[str, Any]:
    body = {"text_input": "Hello!", **tensors}
    url = f"{served.http_url}/v2/models/{model}/generate"
    return dict(httpx.post(url, json=body, timeout=120).json())


def of_pytorch(pod: TrtllmPod, **tensors: Any) -> dict[str, Any]:
    return query(pod.served, "tensorrt_llm", **{"sampling_param_max_tokens": 2, **tensors})


def sent(served: Served, host: ImageHost, model: str, question: str) -> list[Any]:
    images = (host.url("red-square.png"), host.url("big-green-triangle.png"))
    command = ["sh", str(PROGRAM), f"{served.http_url}/v2/models/{model}", question, *images]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    return [json.loads(x.removeprefix("data: ")) for x in done.stdout.split("\n") if x]


def by_grpc(served: Served, model: str) -> list[bytes]:
    with triton.InferenceServerClient(served.grpc_url) as client:
        text = triton.InferInput("text_input", [1], "BYTES")
        text.set_data_from_numpy(np.array([b"Hello!"], object))
        found = client.infer(model, [text], client_timeout=120).as_numpy("text_output")
    return list(found.tolist())


def test_the_guides_commands(served: Served, host: ImageHost) -> None:
    """One image, two of them, and the same by `generate` and `generate_stream`; by gRPC."""
    one, _, generated, streamed = sent(served, host, "llmapi", "What is in the image?")
    _, two, *_ = sent(served, host, "llmapi", "What is in the second image?")
    answer = {"name": "text_output", "datatype": "BYTES", "shape": [1]}
    assert one["outputs"] == [answer | {"data": ["a red square"]}]
    assert two["outputs"] == [answer | {"data": ["a green triangle"]}]
    assert generated["text_output"] == streamed["text_output"] == "a red square"
    said = b"user : hello ! assistant : i answer questions about shapes"
    assert by_grpc(served, "llmapi") == [said]


def test_the_guides_commands_on_pytorch(pod: TrtllmPod, host: ImageHost) -> None:
    """The gateway answers beside them, of the same LLM."""
    one, two, *others = sent(pod.served, host, "tensorrt_llm", "What is it?")
    texts = [found["outputs"][0]["data"][0] for found in (one, two)]
    assert texts == ["An answer about 224x224", "An answer about 224x224 224x224"]
    assert [found["text_output"] for found in others] == texts[:1] * 2
    assert by_grpc(pod.served, "tensorrt_llm") == [b"Hello!An answer about"]
    image = {"type": "image_url", "image_url": {"url": host.url("red-square.png")}}
    content = [{"type": "text", "text": "What is it?"}, image]
    body = {"model": "qwen2-vl", "messages": [{"role": "user", "content": content}]}
    answer = httpx.post(f"{pod.url}/v1/chat/completions", json=body, timeout=120).json()
    assert answer["choices"][0]["message"]["content"]


def test_what_can_be_requested_of_pytorch(pod: TrtllmPod) -> None:
    """The prompt is echoed unless excluded; reasons, sums and measured figures come on request."""
    answers = [of_pytorch(pod, **one)["text_output"] for one in ({}, EXCLUDED)]
    assert answers == ["Hello!An answer", "An answer"]
    found = of_pytorch(pod, **WANTED, sampling_param_return_perf_metrics=True)
    assert (found["finish_reason"], found["cumulative_logprob"]) == ("length", -1.0)
    assert (found["kv_cache_missed_block"], found["kv_cache_hit_rate"]) == (1, 0.5)
    assert found["first_token_time_ns"] == 1_000_000_000
    stopped = of_pytorch(pod, sampling_param_stop=["answer"], return_stop_reason=True)
    assert stopped["stop_reason"] == "answer"


@cases(
    "tensors words",
    {
        "streams": ({"streaming": True}, "this model sends one response"),
        "files": ({"image_url": "file:///a"}, "'file:///a' is not a URL of an image"),
        "hosts": ({"image_url": "http://10.0.0.1/a.png"}, "image_url: "),
        "many images": ({"image_url": ["data:,"] * 3}, "3 images, at most 2 a request"),
        "tokens": ({"sampling_param_max_tokens": 0}, "max_tokens must be at least 1"),
        "best of": ({"sampling_param_best_of": 0}, "best_of (0) cannot be less"),
    },
)
def test_what_pytorch_refuses(pod: TrtllmPod, tensors: dict[str, Any], words: str) -> None:
    assert words in of_pytorch(pod, **tensors)["error"]


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
