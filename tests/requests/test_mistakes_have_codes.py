"""docs/reference/request-errors.md is true: each mistake, both models, every call, the gateway."""

import base64
import io
import queue
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton
from PIL import Image
from tritonclient.utils import np_to_triton_dtype

from support.image_host import ImageHost
from support.real_gateway import gateway_before
from support.served import Served
from support.tiny_llava import IMAGES, BuiltEngine

pytestmark = pytest.mark.triton

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "request-errors.md"
QUESTION = "What is in the image?"
SECONDS = 60
RED = np.asarray(Image.open(IMAGES / "red-square.png"))
TRUNCATED = (IMAGES / "red-square.png").read_bytes()[:200]

Tensors = Mapping[str, object]


@dataclass(frozen=True)
class Row:
    """One line of the page's table."""

    mistake: str
    grpc: str
    http: str
    openai: str
    message: str


def rows() -> list[Row]:
    first = PAGE.read_text().partition("\n## ")[0]
    lines = [line for line in first.splitlines() if line.startswith("| ")][2:]
    return [Row(*(cell.strip() for cell in line.strip("|").split("|"))) for line in lines]


def text(*values: str) -> Any:
    return np.array([[value.encode() for value in values]], dtype=np.object_)


def number(value: int) -> Any:
    return np.array([[value]], dtype=np.int32)


def data_url(content: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


REQUESTED = {"text_input": text(QUESTION), "max_tokens": number(8)}

TENSORS: dict[str, Tensors] = {
    "required tensor missing": {"text_input": text(QUESTION)},
    "wrong data type": {**REQUESTED, "max_tokens": np.array([[3.0]], dtype=np.float32)},
    "wrong number of dimensions": {**REQUESTED, "image_bytes_input": RED[np.newaxis]},
    "tasks of a prompt table": {**REQUESTED, "tasks": number(1)},
    "one channel": {**REQUESTED, "image_bytes_input": RED[None, None, :, :, :1]},
    "image token without an image": {**REQUESTED, "text_input": text("<image> what?")},
    "more images than planned": {**REQUESTED, "image_url_input": text(*[data_url(TRUNCATED)] * 3)},
    "prompt longer than planned": {**REQUESTED, "text_input": text("what " * 200)},
    "text of a megabyte": {**REQUESTED, "text_input": text("what " * 200_000)},
    "no tokens requested": {**REQUESTED, "max_tokens": number(0)},
    "a search of beams": {**REQUESTED, "beam_width": number(2)},
    "NaN pixels": {**REQUESTED, "image_input": np.full((1, 1, 3, 56, 56), np.nan, np.float16)},
    "video for a model without": {**REQUESTED, "video_bytes_input": np.stack([RED] * 3)[None]},
    "truncated image": {**REQUESTED, "image_url_input": text(data_url(TRUNCATED))},
    "unknown LoRA adapter": {**REQUESTED, "lora_task_id": np.array([[5]], dtype=np.uint64)},
}

PATHS = {
    "URL that hangs": "hang",
    "URL that redirects elsewhere": "away",
    "URL of a web page": "page",
    "URL of one gigabyte": "gigabyte",
    "URL without an end": "endless",
}


def tensors_of(mistake: str, host: ImageHost) -> Tensors:
    if mistake == "URL of a file":
        return {**REQUESTED, "image_url_input": text("file:///etc/passwd")}
    if mistake in PATHS:
        return {**REQUESTED, "image_url_input": text(host.url(PATHS[mistake]))}
    return TENSORS[mistake]


def query(served: Served, model: str, tensors: Tensors) -> tuple[str, str]:
    """Send a request by ModelStreamInfer; return "OK" and the text, or code and message."""
    inputs = []
    for name, array in tensors.items():
        array = np.asarray(array)  # noqa: PLW2901 (for the type checker)
        made = triton.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        inputs.append(made.set_data_from_numpy(array))
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    with triton.InferenceServerClient(served.grpc_url) as client:
        client.start_stream(callback=lambda result, error: answers.put((result, error)))
        client.async_stream_infer(model, inputs)
        result, error = answers.get(timeout=SECONDS)
    if error is None:
        return "OK", result.as_numpy("text_output").item().decode()
    message = error.message().removeprefix(f"in ensemble '{model}', ")
    code, colon, _ = message.partition(": ")
    return code if colon and code.isupper() else "-", message


def _by_triton(found: list[Row]) -> list[Any]:
    """Return parameters; what hangs takes seconds, and is slow where not the gateway is queried."""
    slow = {"URL that hangs": pytest.mark.slow}
    return [pytest.param(row, id=row.mistake, marks=slow.get(row.mistake, ())) for row in found]


@pytest.mark.parametrize("row", _by_triton(rows()))
def test_grpc(served: Served, model: str, host: ImageHost, row: Row) -> None:
    status, message = query(served, model, tensors_of(row.mistake, host))
    assert row.grpc == status
    assert row.message in message


def _json(tensors: Tensors) -> dict[str, object]:
    found = {}
    for name, array in tensors.items():
        values = [
            value.decode() if isinstance(value, bytes) else value
            for value in np.asarray(array).ravel().tolist()
        ]
        found[name] = values[0] if len(values) == 1 else values
    return found


@pytest.mark.parametrize("row", _by_triton([row for row in rows() if row.http != "-"]))
@pytest.mark.parametrize(
    ("model", "call"),
    [
        ("ensemble", "generate"),
        ("tensorrt_llm_bls", "generate_stream"),
        # Above: by each model and by each call, in two of the four pairs; the others are slow.
        pytest.param("ensemble", "generate_stream", marks=pytest.mark.slow),
        pytest.param("tensorrt_llm_bls", "generate", marks=pytest.mark.slow),
    ],
)
def test_http(served: Served, host: ImageHost, model: str, row: Row, call: str) -> None:
    """The status of both HTTP calls; the words are in the body."""
    url = f"{served.http_url}/v2/models/{model}/{call}"
    answer = httpx.post(url, json=_json(tensors_of(row.mistake, host)), timeout=SECONDS)
    assert row.http == str(answer.status_code)
    # Triton's own parser of JSON does not name types as gRPC's checks do.
    assert row.message in answer.text or row.mistake == "wrong data type"


@pytest.fixture(scope="module")
def gateway(
    built_engine: BuiltEngine, served: Served, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with gateway_before(built_engine, served.grpc_url, tmp_path_factory.mktemp("gateway")) as url:
        yield url


def _parts(mistake: str, host: ImageHost) -> tuple[list[dict[str, object]], dict[str, object]]:
    """Return the content of a message that makes the mistake, and more of the body."""
    said: dict[str, object] = {"type": "text", "text": QUESTION}
    image_part: Callable[[str], dict[str, object]] = lambda url: {  # noqa: E731
        "type": "image_url",
        "image_url": {"url": url},
    }
    more: dict[str, object] = {"max_tokens": 0} if mistake == "no tokens requested" else {}
    if mistake == "image token without an image":
        return [{"type": "text", "text": "<image> what?"}], more
    if mistake in {"prompt longer than planned", "text of a megabyte"}:
        [written] = np.asarray(TENSORS[mistake]["text_input"]).ravel().tolist()
        return [{"type": "text", "text": written.decode()}], more
    if mistake == "video for a model without":
        return [said, {"type": "video_url", "video_url": {"url": host.url("a.mp4")}}], more
    if mistake == "unknown LoRA adapter":
        return [said], {"model": "tiny:none"}
    if mistake == "no tokens requested":
        return [said], more
    urls = [str(one) for one in _urls(tensors_of(mistake, host))]
    return [said, *map(image_part, urls)], more


def _urls(tensors: Tensors) -> list[str]:
    return [one.decode() for one in np.asarray(tensors["image_url_input"]).ravel().tolist()]


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row.mistake) for row in rows() if row.openai != "-"]
)
def test_openai(gateway: str, host: ImageHost, row: Row) -> None:
    content, more = _parts(row.mistake, host)
    body = {"model": "tiny", "messages": [{"role": "user", "content": content}], **more}
    answer = httpx.post(f"{gateway}/v1/chat/completions", json=body, timeout=SECONDS)
    code = answer.json()["error"]["code"]
    assert row.openai == f"{answer.status_code} {code or ''}".strip(), answer.text


def test_a_strip_is_served(served: Served, model: str) -> None:
    """Resized by its shorter side it would take 12 GB. Other odd images: tests/media."""
    buffer = io.BytesIO()
    Image.new("RGB", (1, 1_000_000), (220, 20, 20)).save(buffer, "PNG")
    requested = {**REQUESTED, "image_url_input": text(data_url(buffer.getvalue()))}
    assert query(served, model, requested) == ("OK", "a red square")


def test_every_mistake_is_made() -> None:
    """A line without a request behind it would be a promise that no one keeps."""
    made = {*TENSORS, *PATHS, "URL of a file"}
    assert made == {row.mistake for row in rows()}
    assert re.search(r"tests/requests/(\w+)\.py", PAGE.read_text())[1] == Path(__file__).stem  # type: ignore[index]
