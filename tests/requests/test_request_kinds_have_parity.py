"""One table: each kind of request, by every call that clients use."""

import base64
import json
from collections.abc import Mapping

import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton
from PIL import Image
from tritonclient.utils import InferenceServerException

from mm_runtime.serving.preprocess.processors.squares import SquareProcessor
from support.ensemble import Ensemble
from support.served import Served
from support.tiny_llava import CHECKPOINT, IMAGES

pytestmark = pytest.mark.triton

RED, GREEN = "red-square.png", "big-green-triangle.png"
QUESTION = "What is in the image?"
MODELS = ("ensemble", "tensorrt_llm_bls")
STREAMED: dict[str, object] = {"stream": True}
GREETING = "i answer questions about shapes"


def _url(name: str) -> str:
    return "data:image/png;base64," + base64.b64encode((IMAGES / name).read_bytes()).decode()


def _pixels(*names: str) -> object:
    return np.stack([np.asarray(Image.open(IMAGES / name)) for name in names])[np.newaxis]


def _values(name: str) -> object:
    preprocess = SquareProcessor.from_folder(CHECKPOINT)
    return preprocess.values_of([Image.open(IMAGES / name)])[np.newaxis].astype(np.float16)


GUIDE = {
    "end_id": -1,
    "pad_id": 1,
    "beam_width": 1,
    "top_k": 1,
    "top_p": 0.0,
    "temperature": 1.0,
    "repetition_penalty": 1.0,
    "max_tokens": 3,
}
"""What upstream's client.py sends with each request; its end_id ends nothing."""

GRPC = {
    "text": ("Hello!", {}, GREETING),
    "image_input": (QUESTION, {"image_input": _values(RED)}, "a red square"),
    "image_bytes_input": (QUESTION, {"image_bytes_input": _pixels(RED)}, "a red square"),
    "image_url_input": (QUESTION, {"image_url_input": _url(RED)}, "a red square"),
    "two images": (
        "What is in the second image?",
        {"image_bytes_input": _pixels(RED, GREEN)},
        "a green triangle",
    ),
    "two URLs": (
        "What is in the first image?",
        {"image_url_input": [_url(RED), _url(GREEN)]},
        "a red square",
    ),
    "client.py": (QUESTION, {"image_input": _values(RED), **GUIDE}, "a red square"),
    "stop_words": ("Hello!", {"stop_words": ["about"]}, "i answer questions"),
}

OPTIONS: dict[str, dict[str, object]] = {
    "bad_words": {"bad_words": ["about"]},
    "embedding_bias": {"embedding_bias_words": ["about"], "embedding_bias_weights": [[-100.0]]},
    "repetition_penalty": {"repetition_penalty": 50.0, "end_id": -1},
    "presence_penalty": {"presence_penalty": 50.0, "end_id": -1},
    "frequency_penalty": {"frequency_penalty": 50.0, "end_id": -1},
    "min_tokens": {"min_tokens": 12},
    "temperature, top_p and seed": {"temperature": 20.0, "top_p": 1.0, "random_seed": 7},
}
"""What changes the answer to a greeting, each by itself."""

NESTED: dict[str, object] = {
    "id": "42",
    "text_input": QUESTION,
    "image_url_input": _url(RED),
    "parameters": {**GUIDE, "end_id": 3, "max_tokens": 16},
}
"""The body of the guide's `curl`; others are those of test_mmctl_queries.py."""


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", sorted(GRPC))
def test_grpc(served: Served, model: str, kind: str, stream: bool) -> None:  # noqa: FBT001
    """ModelStreamInfer gives the kind's answer, entire or in pieces."""
    text, values, expected = GRPC[kind]
    with Ensemble(served.grpc_url, model) as client:
        assert expected == client.query(text, stream=stream, **values).text


@pytest.mark.parametrize("kind", sorted(OPTIONS))
def test_options_change_the_answer(served: Served, kind: str) -> None:
    """Each option reaches the engine by both models, alone and streamed, to one effect."""
    found = []
    for model in MODELS:
        for stream in (False, True):
            with Ensemble(served.grpc_url, model) as client:
                requested = {"max_tokens": 16, "stream": stream, **OPTIONS[kind]}
                found.append(client.query("Hello!", **requested).text)
    assert found == [found[0]] * 4
    assert found[0] != GREETING


def test_prompts_come_back_when_requested(served: Served) -> None:
    """`exclude_input_in_output: false` puts the prompt's text before an entire answer."""
    requested = {"image_bytes_input": _pixels(RED), "exclude_input_in_output": False}
    with Ensemble(served.grpc_url, "tensorrt_llm_bls") as client:
        complete = client.query(QUESTION, **requested).text
        pieces = client.query(QUESTION, stream=True, **requested).text
    assert complete == "user : what is in the image ? assistant : a red square"
    assert pieces == "a red square"


def _post(served: Served, model: str, call: str, body: Mapping[str, object]) -> str:
    url = f"{served.http_url}/v2/models/{model}/{call}"
    answer = httpx.post(url, json=body, timeout=60)
    assert answer.is_success, answer.text
    lines = (line.removeprefix("data: ") for line in answer.text.splitlines() if line)
    return "".join(json.loads(line)["text_output"] for line in lines)


def test_http(served: Served, model: str) -> None:
    """`generate`, and `generate_stream` with and without pieces."""
    for call, more in (("generate", {}), ("generate_stream", {}), ("generate_stream", STREAMED)):
        assert _post(served, model, call, NESTED | more) == "a red square"


def test_model_infer_is_refused_with_a_message(served: Served, model: str) -> None:
    """Triton serves models that can stream by ModelStreamInfer only; a client reads that."""
    with triton.InferenceServerClient(served.grpc_url) as client:
        text = triton.InferInput("text_input", [1, 1], "BYTES")
        text.set_data_from_numpy(np.array([[b"Hello!"]], dtype=np.object_))
        tokens = triton.InferInput("max_tokens", [1, 1], "INT32")
        tokens.set_data_from_numpy(np.array([[4]], dtype=np.int32))
        with pytest.raises(InferenceServerException, match="decoupled transaction policy"):
            client.infer(model, [text, tokens], client_timeout=60)
