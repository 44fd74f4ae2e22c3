"""The engine behind `trtllm-serve`: OpenAI's chat as a stream, over HTTP on loopback.

What a request says is `chat`'s. Its wire is that of tensorrt_llm/serve/openai_protocol.py,
which refuses fields it does not know.
"""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import httpx

from mm_api.documents.engine_manifest import ADAPTERS_FOLDER
from mm_api.documents.serving_plan import ServingPlan
from mm_api.families import FAMILIES
from mm_api.gateway_memory import encoding_bytes
from mm_runtime.backends.pytorch.chat import ChatBody, MediaFile, WriteTurns, chat_body
from mm_runtime.base.chat_template import TemplateRefusedError
from mm_runtime.gateway.api.finish_reason import FinishReason
from mm_runtime.gateway.api.scores import TokenScore
from mm_runtime.gateway.backends.engine import Ended, EngineRequest, Text
from mm_runtime.gateway.errors import (
    GatewayError,
    InvalidRequestError,
    engine_failed,
    engine_unavailable,
)
from mm_runtime.gateway.media.encoding_room import EncodingRoom
from mm_runtime.gateway.prompts.loading import load_turn_writer
from mm_runtime.serving.directory import EngineDirectory

_PATH = "/v1/chat/completions"
_PROBE_SECONDS = 1.0
"""Deadline of a readiness question; the kubelet's probe allows one second by default."""
_CONNECT_SECONDS = 1.0
"""On loopback a server that listens accepts in microseconds."""
_IDLE_SECONDS = 2.0
"""Upstream closes connections that were idle for 5 s (TIMEOUT_KEEP_ALIVE of openai_server.py); one
that is used again just then would fail its request."""
_MESSAGE_CHARACTERS = 300
"""Characters of an error's message that are passed on: upstream's can hold an entire request."""
_FORM_ERROR = "Guided decoding error: "
"""Begins what the server says of a grammar that its library refused, since 1.2."""
_DONE = "[DONE]"
_SENT_BYTES = 3 << 16
"""Bytes of a file at one time: base64 of them needs no filling, and the loop not a millisecond."""


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
        write: of conversations with media; None: the server writes them all.
        encoding_bytes: of memory for media that are encoded and sent at one time.
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
        write: WriteTurns | None = None,
        encoding_bytes: int = 1 << 30,
    ) -> None:
        self._model = model
        self._as_videos = as_videos
        self._write = write
        self._room = EncodingRoom(encoding_bytes)
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
        try:
            body = await asyncio.to_thread(self._body, request, adapter)
        except TemplateRefusedError as error:
            raise InvalidRequestError(f"`messages`: {error}.", param="messages") from error
        for file, _ in body.files:
            self._room.check(file.memory_bytes)
        headers = {"content-type": "application/json"}
        try:
            async with (
                # Closed by itself: the server may answer without having read it all.
                aclosing(self._sent(body)) as content,
                self._client.stream(
                    "POST", _PATH, content=content if body.files else body.first, headers=headers
                ) as answer,
            ):
                if answer.status_code != httpx.codes.OK:
                    raise _refused(answer.status_code, await answer.aread())
                async with aclosing(_events(answer.aiter_lines())) as events:
                    async for event in events:
                        yield event
        except httpx.TransportError as error:
            raise engine_unavailable() from error

    def _body(self, request: EngineRequest, adapter: Path | None) -> ChatBody:
        return chat_body(
            self._model, request, adapter, as_videos=self._as_videos, write=self._write
        )

    async def _sent(self, body: ChatBody) -> AsyncGenerator[bytes, None]:
        """Yield a body, whose files are made as they are sent, and gone once they are."""
        yield body.first
        for file, behind in body.files:
            async with aclosing(self._base64(file)) as pieces:
                async for piece in pieces:
                    yield piece
            yield behind

    async def _base64(self, file: MediaFile) -> AsyncGenerator[bytes, None]:
        """Yield a file as base64."""
        async with self._room.of(file.memory_bytes, partial(file.encode, file.pixels)) as encoded:
            encoded.seek(0)
            while piece := encoded.read(_SENT_BYTES):
                yield base64.b64encode(piece)


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
    """Return a token's score.

    Raises:
        EngineFailedError: it is no number: the model computes NaN or infinity.
    """
    text = one["token"]
    if not (isinstance(one["logprob"], int | float) and one["logprob"] < inf):
        raise engine_failed()
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


def open_trtllm_serve(
    directory: EngineDirectory, serving: ServingPlan, address: str
) -> TrtllmServeEngine:
    """Return the engine at host:port, or where the plan has it listen; no request is sent yet.

    Raises:
        OSError, ValueError: the engine's tokenizer or chat template is missing or unusable, or the
            server would drop its adapters.
    """
    plan = serving.trtllm_serve
    if plan is None:
        raise ValueError("the serving plan does not say how trtllm-serve is called")
    folder = directory.root.absolute() / ADAPTERS_FOLDER
    adapters = {one.uid: folder / one.name for one in directory.manifest.plan.adapters}
    if adapters and not plan.applies_adapters:
        # It would answer requests with one as the checkpoint alone, without an error.
        raise ValueError(
            "the engine has LoRA adapters and the serving plan no lora_config: it comes from"
            " another version of the operator, which has to plan again"
        )
    served = FAMILIES[directory.facts.family].pytorch
    joins = served is not None and served.joins_messages  # it uses no template at all
    return TrtllmServeEngine(
        address or f"127.0.0.1:{plan.port}",
        serving.model,
        request_seconds=serving.gateway.request_timeout_seconds,
        takes_salt=plan.takes_salt,
        adapters=adapters,
        as_videos=serving.gateway.max_video_frames > 0,
        write=load_turn_writer(directory) if plan.takes_templates and not joins else None,
        encoding_bytes=encoding_bytes(serving.gateway),
    )
