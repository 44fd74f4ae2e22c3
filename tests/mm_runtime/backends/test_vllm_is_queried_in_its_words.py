"""What the gateway sends vLLM of a request, and what it reads of answers recorded from 0.32.0."""

import asyncio
import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mm_edge.errors import GatewayError, InvalidRequestError
from mm_runtime.backends.openai_server.client import OpenAiServerEngine
from mm_runtime.backends.vllm.client import VllmDialect
from mm_runtime.backends.vllm.forms import VllmForms
from mm_runtime.gateway.api.finish_reason import FinishReason
from mm_runtime.gateway.api.stated_form import (
    Choice,
    StatedForm,
)
from mm_runtime.gateway.api.tool_dialects import HERMES, LLAMA, MISTRAL, ToolDialect
from mm_runtime.gateway.api.tools import Function
from mm_runtime.gateway.backends.engine import LIKELIEST, Ended, EngineRequest, Text
from mm_runtime.gateway.errors import EngineFailedError
from mm_runtime.gateway.media.as_sent import as_sent
from mm_runtime.gateway.media.audio import decode_audio, encode_wav
from mm_runtime.gateway.media.frames import Video
from support.families.recordings import noise
from support.http_servers import Exchange, serve_local

IMAGE = np.zeros((2, 3, 3), np.uint8)
PLAIN = EngineRequest(prompt="<s>a", sampling=LIKELIEST, max_tokens=2)
STREAM: Any = {"content-type": "text/event-stream"}
ROLE: dict[str, Any] = {"delta": {"role": "assistant", "content": ""}, "finish_reason": None}
WORD = {"delta": {"content": " a"}, "finish_reason": None, "token_ids": [10]}
END = {"delta": {"content": ""}, "finish_reason": "stop", "token_ids": [3]}
USAGE = {"choices": [], "usage": {"completion_tokens": 2}}
FAILED = {"error": {"message": "Internal server error", "type": "InternalServerError", "code": 500}}
GRAMMAR = {"error": {"message": "Grammar error: at 1(8)\nmore", "code": 400}}


def body_of(request: EngineRequest) -> dict[str, Any]:
    body = VllmDialect("tiny", "<s>", {7: "colors"}).body(request)
    found = json.loads(body.first + b"".join(behind for _, behind in body.files))
    assert isinstance(found, dict)
    return found


def test_words_are_the_servers() -> None:
    """No default is generation_config.json's, the begin token is there once, seeds are signed."""
    neutral = {"top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
    assert neutral.items() <= body_of(PLAIN).items()
    given = [PLAIN, replace(PLAIN, prompt="a")]
    assert [body_of(one)["add_special_tokens"] for one in given] == [False, True]
    sampling = replace(LIKELIEST, temperature=1.0, seed=(1 << 64) - 5)
    assert body_of(replace(PLAIN, sampling=sampling))["seed"] == -5
    least = replace(LIKELIEST, repetition_penalty=5e-324)
    assert np.float32(1e4 / body_of(replace(PLAIN, sampling=least))["repetition_penalty"]) < np.inf
    form = VllmForms().stated(StatedForm(Choice(["a", "b", "a"]), "structured_outputs"))
    assert body_of(replace(PLAIN, form=form))["structured_outputs"] == {"choice": ["a", "b"]}
    assert body_of(replace(PLAIN, adapter=7))["model"] == "colors"


def test_images_are_known_by_pixels_shape_and_salt() -> None:
    images = (IMAGE, np.ones_like(IMAGE), IMAGE.reshape(3, 2, 3))

    def keys(salt: str) -> list[str]:
        body = body_of(replace(PLAIN, images=images, cache_salt=salt))
        return [part["uuid"] for part in body["messages"][0]["content"]]

    assert len({*keys(""), *keys("b")}) == 6
    assert keys("b") == keys("b")


def test_images_lose_nothing() -> None:
    """What Pillow reads, as the server does, are the pixels, in the bytes that are counted."""
    image = np.arange(30, dtype=np.uint8).reshape(2, 5, 3)[:, ::-1]
    ((file, _),) = VllmDialect("tiny").body(replace(PLAIN, images=(image,))).files
    with Image.open(file.encode()) as read:
        assert np.array_equal(read, image)
    wide = np.zeros((500, 500, 3), np.uint8)
    ((file, _),) = VllmDialect("tiny").body(replace(PLAIN, images=(wide,))).files
    assert wide.nbytes < file.encode().getbuffer().nbytes < file.memory_bytes


def test_recordings_lose_nothing() -> None:
    samples = noise(0.1, seed=1)
    request = replace(PLAIN, recordings=(samples, samples[:800]))
    ((file, _), _) = VllmDialect("tiny").body(request).files
    encoded = file.encode().getvalue()
    assert np.array_equal(decode_audio(encoded, most_samples=1600), samples)
    assert len(encoded) < file.memory_bytes
    first, second = body_of(request)["messages"][0]["content"]
    assert (first["type"], first["uuid"] == second["uuid"]) == ("audio_url", False)


def test_frames_lose_nothing() -> None:
    """They are images in a row, with the rate at which they are shown; the key says it, too."""
    frames = np.arange(90, dtype=np.uint8).reshape(3, 2, 5, 3)
    request = replace(PLAIN, videos=(Video(frames, 6.0),))
    files = [file for file, _ in VllmDialect("tiny").body(request).files]
    shown = np.stack([np.asarray(Image.open(file.encode())) for file in files])
    assert np.array_equal(shown, frames)
    body, slower = body_of(request), body_of(replace(request, videos=(Video(frames, 9.0),)))
    (part,), (other,) = (one["messages"][0]["content"] for one in (body, slower))
    assert part["video_url"]["url"] == "data:video/jpeg;base64,,,"
    assert part["uuid"] != other["uuid"]
    assert body["media_io_kwargs"] == {"video": {"num_frames": 3, "fps": 0.5}}
    unsaid = body_of(replace(request, videos=(Video(frames),)))["media_io_kwargs"]
    assert unsaid["video"]["fps"] == 2


SPOKEN = replace(
    PLAIN,
    prompt="<|startoftranscript|><|de|><|transcribe|><|notimestamps|>",
    audio=noise(0.1, seed=1),
)


async def test_recordings_are_transcribed() -> None:
    """As a form with language, limit and file; the prefix is the server's to write."""
    form = VllmDialect("tiny").body(SPOKEN).form
    assert form is not None
    written = await form().as_bytes()
    values = {"language": "de", "max_completion_tokens": 2, "stream": "true"}
    for name, value in values.items():
        assert re.search(f'name="{name}"\r\n\r\n{value}\r\n'.encode(), written), name
    wav = encode_wav(SPOKEN.audio)
    assert wav in written
    events = [{"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}, USAGE]
    assert await answered(200, *events, request=SPOKEN) == [Text("a"), Ended(FinishReason.STOP, 2)]


def test_translations_are_drawn_plainly() -> None:
    request = replace(SPOKEN, prompt=SPOKEN.prompt.replace("transcribe", "translate"))
    assert VllmDialect("tiny").body(request).path == "/v1/audio/translations"
    drawn = replace(request, sampling=replace(LIKELIEST, temperature=1.0, top_k=4))
    with pytest.raises(InvalidRequestError, match="`top_k` is not served of translations"):
        VllmDialect("tiny").body(drawn)


@pytest.mark.parametrize(
    ("dialect", "kind", "begins"),
    [
        pytest.param(LLAMA, "json", '{"type": "object"', id="bare"),
        pytest.param(HERMES, "structural_tag", "<tool_call>\\\\n", id="marked"),
        pytest.param(MISTRAL, "structural_tag", "[TOOL_CALLS]", id="listed"),
    ],
)
def test_calls_have_a_form(dialect: ToolDialect, kind: str, begins: str) -> None:
    form = VllmForms().call([Function(name="look")], dialect, several=True)
    assert (form.kind, begins in form.text) == (kind, True)
    assert body_of(replace(PLAIN, form=form))["structured_outputs"][kind]
    with pytest.raises(InvalidRequestError, match="control token"):
        VllmForms().call([Function(name="look")], dialect.with_control(5), several=True)


async def answered(
    status: int, *events: dict[str, Any], request: EngineRequest = PLAIN
) -> list[Text | Ended]:

    async def answer(exchange: Exchange) -> None:
        assert exchange.headers.get("content-length") != "0"
        if status != 200:
            await exchange.answer(status, json.dumps(events[0]).encode())
            return
        lines = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        await exchange.answer(200, lines.encode(), **STREAM)

    async with serve_local(answer) as server:
        engine = OpenAiServerEngine(
            f"127.0.0.1:{server.port}",
            VllmDialect("tiny"),
            request_seconds=60,
        )
        try:
            return [event async for event in engine.generate(request)]
        finally:
            await engine.close()


async def checked_beside_a_recording() -> EngineRequest:
    check = asyncio.get_running_loop().create_future()
    check.set_result(None)
    image = as_sent((2, 3, 3), b"file", "image/png", check)
    return replace(PLAIN, images=(image,), recordings=(np.zeros(16, np.float32),))


@pytest.mark.parametrize("recorded", [False, True])
async def test_tokens_are_counted(*, recorded: bool) -> None:
    chunks: list[dict[str, Any]] = [{"choices": [one]} for one in (ROLE, WORD, END)]
    request = await checked_beside_a_recording() if recorded else PLAIN
    first, second, end = await answered(200, *chunks, USAGE, request=request)
    assert isinstance(first, Text)
    assert isinstance(second, Text)
    assert (first.text, first.ids, second.ids) == (" a", (10,), (3,))
    assert end == Ended(FinishReason.STOP, 2)


@pytest.mark.parametrize(
    ("status", "error", "kind", "message"),
    [
        pytest.param(400, GRAMMAR, InvalidRequestError, r"at 1\(8\)\.", id="refused"),
        pytest.param(200, GRAMMAR, InvalidRequestError, r"at 1\(8\)\.", id="refused-late"),
        pytest.param(500, FAILED, EngineFailedError, "failed on", id="failed"),
        pytest.param(200, FAILED, EngineFailedError, "failed on", id="failed-late"),
    ],
)
async def test_errors_are_the_clients_or_not(
    status: int, error: dict[str, Any], kind: type[GatewayError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        await answered(status, error)
