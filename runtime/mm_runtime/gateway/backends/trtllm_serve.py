"""The engine behind `trtllm-serve`: OpenAI's chat as a stream, over HTTP on loopback.

The server writes the prompt itself, with the checkpoint's template, so it is sent the conversation.
Its wire is that of tensorrt_llm/serve/openai_protocol.py, which refuses fields it does not know.
"""

import asyncio
import base64
import io
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mm_runtime.gateway.api import guided
from mm_runtime.gateway.api.finish_reason import FinishReason
from mm_runtime.gateway.api.scores import TokenScore
from mm_runtime.gateway.backends.engine import Ended, EngineRequest, Form, Text
from mm_runtime.gateway.errors import (
    GatewayError,
    InvalidRequestError,
    engine_failed,
    engine_unavailable,
)
from mm_runtime.gateway.media.frame_file import MEDIA_TYPE, frame_file
from mm_runtime.gateway.prompts.templates import Call, Media, Turn

_PATH = "/v1/chat/completions"
_PROBE_SECONDS = 1.0
"""Deadline of a readiness question; the kubelet's probe allows one second by default."""
_CONNECT_SECONDS = 1.0
"""On loopback a server that listens accepts in microseconds."""
_IDLE_SECONDS = 2.0
"""Upstream closes connections that were idle for 5 s (TIMEOUT_KEEP_ALIVE of openai_server.py); one
that is used again just then would fail its request."""
_MESSAGE_CHARACTERS = 300
"""Of an error's message that are passed on: upstream's can hold an entire request."""
_FORM_ERROR = "Guided decoding error: "
"""Begins what the server says of a grammar that its library refused, since 1.2."""
_PNG_LEVEL = 1
"""zlib's fastest: the bytes cross loopback, and a level more costs more than it saves."""
_DONE = "[DONE]"


class TrtllmServeEngine:
    """Implements `mm_runtime.gateway.backends.engine.Engine` on trtllm-serve.

    Args:
        address: host:port.
        model: the name that the server knows, for its answers.
        request_seconds: of silence that a request may have, which its own deadline ends before.
        takes_salt: the server knows `cache_salt`.
        adapters: uid -> folder of each LoRA adapter that the server applies; the folder has the
            adapter's name, and lies there in the server's container too.
        as_videos: the server reads every image as a video of one frame, and no images.
    """

    def __init__(
        self,
        address: str,
        model: str,
        *,
        request_seconds: float,
        takes_salt: bool = True,
        adapters: Mapping[int, Path] | None = None,
        as_videos: bool = False,
    ) -> None:
        self._model = model
        self._as_videos = as_videos
        self._takes_salt = takes_salt
        self._adapters = dict(adapters or {})
        self._client = httpx.AsyncClient(
            base_url=f"http://{address}",
            timeout=httpx.Timeout(request_seconds, connect=_CONNECT_SECONDS),
            # Admission bounds them; a connection more never waits for one less.
            limits=httpx.Limits(max_connections=None, keepalive_expiry=_IDLE_SECONDS),
            trust_env=False,  # no proxy stands between two processes of one pod
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def is_ready(self) -> bool:
        """Return whether the server answers: it listens when the model is loaded."""
        try:
            answer = await self._client.get("/health", timeout=_PROBE_SECONDS)
        except httpx.TransportError:
            return False
        return answer.status_code == httpx.codes.OK

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Text | Ended, None]:
        """Yield the text of each chunk, then how it ended.

        Closing the iterator closes the connection, which is how upstream detects a cancellation:
        it checks once a second.
        """
        if request.cache_salt and not self._takes_salt:
            # Served without it, others could learn from delays what this client has sent.
            raise InvalidRequestError(
                "The model's TensorRT-LLM keeps no caches apart: it knows `cache_salt` since 1.1. "
                "Leave the field out, or have the model served by a newer one.",
                param="cache_salt",
            )
        adapter = None if request.adapter is None else self._adapters[request.adapter]
        body = await asyncio.to_thread(
            _encoded, self._model, request, adapter, as_videos=self._as_videos
        )
        try:
            async with self._client.stream(
                "POST", _PATH, content=body, headers={"content-type": "application/json"}
            ) as answer:
                if answer.status_code != httpx.codes.OK:
                    raise _refused(answer.status_code, await answer.aread())
                async with aclosing(_events(answer.aiter_lines())) as events:
                    async for event in events:
                        yield event
        except httpx.TransportError as error:
            raise engine_unavailable() from error


def chat_body(
    model: str, request: EngineRequest, adapter: Path | None = None, *, as_videos: bool = False
) -> dict[str, Any]:
    """Return the body of a request; images are PNGs and videos FFV1, which lose nothing.

    Args:
        model: the name that the server knows.
        request: of a client.
        adapter: folder of the LoRA adapter that `request.adapter` is the uid of.
        as_videos: images are videos of one frame. Of the requests that a server of 1.2 encodes
            together, features of all images come before those of all videos, so they would stand in
            each other's places (Qwen2VisionModelBase.forward of modeling_qwen2vl.py,
            fuse_input_embeds of modeling_multimodal_utils.py).
    """
    parts = _media(request, as_videos=as_videos)
    sampling = request.sampling
    body: dict[str, Any] = {
        "model": model,
        "messages": [_message(turn, parts) for turn in request.turns],
        "max_tokens": request.max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": sampling.temperature,
    }
    if sampling.temperature > 0:
        body |= {"top_p": sampling.top_p, "seed": sampling.seed}
    for name in ("presence_penalty", "frequency_penalty", "repetition_penalty"):
        if (value := getattr(sampling, name)) is not None:
            body[name] = value
    # What is not used is not sent: upstream's defaults differ by version.
    used = {
        "top_k": sampling.temperature > 0 and sampling.top_k,
        "min_p": sampling.temperature > 0 and sampling.min_p,
        "min_tokens": sampling.min_tokens,
        "ignore_eos": sampling.ignores_end,
        "logit_bias": {str(token): bias for token, bias in sampling.bias},
        "stop_token_ids": sorted(request.stop_ids),
        "logprobs": request.likeliest is not None,
        "top_logprobs": request.likeliest,
        "cache_salt": request.cache_salt,
    }
    body |= {name: value for name, value in used.items() if value}
    if request.tools:
        # Without `tool_choice`: versions differ in the words that they take, and a function that
        # is named makes them wrap whatever the answer is. The form makes the call.
        body["tools"] = [{"type": "function", "function": dict(tool)} for tool in request.tools]
    if request.form is not None:
        body["response_format"] = _response_format(request.form)
    if adapter is not None and request.adapter is not None:
        body["lora_request"] = {
            "lora_name": adapter.name,
            # From 1: a condition on its truth would take 0 for no adapter.
            "lora_int_id": request.adapter + 1,
            "lora_path": str(adapter),
        }
    if request.shows_special:
        body["skip_special_tokens"] = False
    return body


def _response_format(form: Form) -> dict[str, Any]:
    """Return a form as every version that has its kind reads it.

    OpenAI's own `json_schema` has a wrapper around the schema, which some versions take for it.
    """
    match form.kind:
        case guided.JSON_SCHEMA:
            return {"type": "json", "schema": json.loads(form.text)}
        case guided.REGEX:
            return {"type": "regex", "regex": form.text}
        case _:
            return {"type": "ebnf", "ebnf": form.text}


def _encoded(model: str, request: EngineRequest, adapter: Path | None, *, as_videos: bool) -> bytes:
    return json.dumps(chat_body(model, request, adapter, as_videos=as_videos)).encode()


def _media(request: EngineRequest, *, as_videos: bool) -> dict[Media, Iterator[dict[str, Any]]]:
    """Return the parts of each kind of media, in order."""
    image = _video_of_image if as_videos else _image
    return {
        Media.IMAGE: map(image, request.images),
        Media.VIDEO: (_video(video.pixels) for video in request.videos),
    }


def _message(turn: Turn, parts: Mapping[Media, Iterator[dict[str, Any]]]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": turn.role, "content": _content(turn, parts)}
    if turn.calls:
        message["tool_calls"] = [_call(call) for call in turn.calls]
    if turn.answers is not None:
        message["tool_call_id"] = turn.answers
    return message


def _content(turn: Turn, parts: Mapping[Media, Iterator[dict[str, Any]]]) -> Any:
    if not turn.parts:  # an answer that was only a call
        return ""
    if len(turn.parts) == 1 and isinstance(turn.parts[0], str):
        return turn.parts[0]
    return [
        {"type": "text", "text": part} if isinstance(part, str) else next(parts[part])
        for part in turn.parts
    ]


def _call(call: Call) -> dict[str, Any]:
    """Return a call; its arguments are a text, of which the server makes an object again."""
    arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def _image(pixels: NDArray[np.uint8]) -> dict[str, Any]:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG", compress_level=_PNG_LEVEL)
    return {"type": "image_url", "image_url": {"url": _data_url("image/png", buffer.getvalue())}}


def _video_of_image(pixels: NDArray[np.uint8]) -> dict[str, Any]:
    return _video(pixels[np.newaxis])


def _video(frames: NDArray[np.uint8]) -> dict[str, Any]:
    return {"type": "video_url", "video_url": {"url": _data_url(MEDIA_TYPE, frame_file(frames))}}


def _data_url(media_type: str, content: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


async def _events(lines: AsyncIterator[str]) -> AsyncGenerator[Text | Ended, None]:
    """Yield what server-sent events hold, up to the last one.

    Raises:
        EngineFailedError: an error among them, or an end without the last one.
    """
    reason: FinishReason | None = None
    tokens: int | None = None
    async for line in lines:
        data = line.removeprefix("data:").strip()
        if data == _DONE:
            break
        if not data or data == line.strip():  # between two events, or no field of ours
            continue
        chunk = _parsed(data)
        for choice in chunk.get("choices", ()):
            text = choice["delta"].get("content")
            if text is not None:  # the first chunk names the role, and has no token
                yield Text(text, scores=_scores(choice.get("logprobs")))
            if choice.get("finish_reason"):
                reason = _reason(choice["finish_reason"])
        if usage := chunk.get("usage"):
            tokens = usage["completion_tokens"]
    if reason is None or tokens is None:
        raise engine_failed()
    yield Ended(reason, tokens)


def _scores(logprobs: dict[str, Any] | None) -> tuple[TokenScore, ...]:
    return tuple(map(_score, (logprobs or {}).get("content") or ()))


def _score(one: dict[str, Any]) -> TokenScore:
    text = one["token"]
    content = one.get("bytes")
    return TokenScore(
        text,
        text.encode(errors="replace") if content is None else bytes(content),
        one["logprob"],
        tuple(map(_score, one.get("top_logprobs") or ())),
    )


def _parsed(data: str) -> dict[str, Any]:
    try:
        chunk = json.loads(data)
    except ValueError as error:
        raise engine_failed() from error
    if not isinstance(chunk, dict) or "choices" not in chunk:
        if _FORM_ERROR in data:
            reason = data.partition(_FORM_ERROR)[2].partition("\\n")[0]
            raise InvalidRequestError(
                f"The model refused the form of the answer: {reason[:_MESSAGE_CHARACTERS]}."
            )
        raise engine_failed()
    return chunk


def _reason(word: str) -> FinishReason:
    """Return the reason; upstream has others, for answers that it gave up."""
    try:
        return FinishReason(word)
    except ValueError as error:
        raise engine_failed() from error


def _refused(status: int, content: bytes) -> GatewayError:
    """Translate an answer that is no stream. Upstream answers 400 to whatever goes wrong."""
    if status == httpx.codes.BAD_REQUEST:
        message = _message_of(content)
        return InvalidRequestError(f"The model refused the request: {message}.")
    if status in {httpx.codes.SERVICE_UNAVAILABLE, httpx.codes.TOO_MANY_REQUESTS}:
        return engine_unavailable()
    return engine_failed()


def _message_of(content: bytes) -> str:
    try:
        message = str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        return "it gives no reason"
    first = message.strip().partition("\n")[0].rstrip(".")
    return first[:_MESSAGE_CHARACTERS]
