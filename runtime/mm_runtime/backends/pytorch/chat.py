"""What trtllm-serve is sent of a request, on the wire of its openai_protocol.py; sends nothing."""

import io
import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mm_api.gateway_memory import PNG_COPIES
from mm_runtime.base.chat_template import Call, Media, Tool, Turn
from mm_runtime.gateway.api import guided
from mm_runtime.gateway.backends.engine import EngineRequest, Form
from mm_runtime.gateway.media.frame_file import MEDIA_TYPE, frame_file, memory_bytes

_PNG_LEVEL = 1
"""zlib's fastest: the bytes cross loopback, and a level more costs more than it saves."""


_MARK_BYTES = 16
"""Size of a mark in the place of each file, which no text of a client's can hold by chance."""

_WRITTEN = "written_prompt"
_TEMPLATE = "{{ " + _WRITTEN + " }}"
"""One for all requests: transformers keeps the last 128 compiled, and a prompt in it would be one
each."""

WriteTurns = Callable[[Sequence[Turn], Sequence[Tool]], str]
"""Writes the prompt of a conversation in which functions are offered; may raise
TemplateRefusedError."""


def chat_body(
    model: str,
    request: EngineRequest,
    adapter: Path | None = None,
    *,
    as_videos: bool = False,
    write: WriteTurns | None = None,
) -> "ChatBody":
    """Return the body of a request; images are PNGs and videos FFV1, which lose nothing.

    Args:
        model: the name that the server knows.
        request: of a client.
        adapter: folder of the LoRA adapter that `request.adapter` is the uid of.
        as_videos: images are videos of one frame. Of the requests that a server of 1.2 encodes
            together, features of all images come before those of all videos, so they would stand in
            each other's places (Qwen2VisionModelBase.forward of modeling_qwen2vl.py,
            fuse_input_embeds of modeling_multimodal_utils.py).
        write: of a conversation with media, whose prompt it is sent along with; None: the server
            writes them all.

    Raises:
        TemplateRefusedError: as `write`.
    """
    files = _Files()
    parts = _media(request, files, as_videos=as_videos)
    sampling = request.sampling
    if write is None or not (request.images or request.videos):
        conversation = _conversation(request, parts)
    else:
        conversation = _written(request, parts, write, as_videos=as_videos)
    body: dict[str, Any] = {
        "model": model,
        **conversation,
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
    first, *others = json.dumps(body).encode().split(files.mark.encode())
    return ChatBody(first, tuple(zip(files.found, others, strict=True)))


@dataclass(frozen=True, slots=True)
class MediaFile:
    """A file of an image or of a video, which is made when it is sent: it is as large as both."""

    pixels: NDArray[np.uint8]
    encode: Callable[[NDArray[np.uint8]], io.BytesIO]
    memory_bytes: int
    """That it takes while it is made and sent."""


@dataclass(frozen=True, slots=True)
class ChatBody:
    """A body in its order: JSON, then each file, as base64, and the JSON behind it."""

    first: bytes
    files: tuple[tuple[MediaFile, bytes], ...]


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of a body, in the order of its JSON."""

    mark: str = field(default_factory=lambda: secrets.token_hex(_MARK_BYTES))
    found: list[MediaFile] = field(default_factory=list)

    def url(self, media_type: str, file: MediaFile) -> str:
        self.found.append(file)
        return f"data:{media_type};base64,{self.mark}"


def _conversation(
    request: EngineRequest, parts: Mapping[Media, Iterator[dict[str, Any]]]
) -> dict[str, Any]:
    """Return the fields of a conversation that the server writes."""
    messages = [_message(turn, parts) for turn in request.turns]
    if not request.tools:
        return {"messages": messages}
    # Without `tool_choice`: versions differ in the words that they take, and a function that is
    # named makes them wrap whatever the answer is. The form makes the call.
    tools = [{"type": "function", "function": dict(tool)} for tool in request.tools]
    return {"messages": messages, "tools": tools}


def _written(
    request: EngineRequest,
    parts: Mapping[Media, Iterator[dict[str, Any]]],
    write: WriteTurns,
    *,
    as_videos: bool,
) -> dict[str, Any]:
    """Return the fields of a conversation that is written here: its media, and a template of it.

    The server would put the placeholders of all media that it has seen so far in front of each
    message, the assistant's too (1.1 and 1.2, until pull request 11461), or all of them in front of
    the last one (1.0), and join the texts of a message behind them (parse_chat_messages_coroutines
    of tensorrt_llm/serve/chat_utils.py). A template of the request wins over the checkpoint's
    (`resolve_hf_chat_template` of tensorrt_llm/inputs/utils.py).
    """
    turns = [_as_videos(turn) for turn in request.turns] if as_videos else request.turns
    media = [part for turn in request.turns for part in turn.parts if isinstance(part, Media)]
    return {
        "messages": [{"role": "user", "content": [next(parts[one]) for one in media]}],
        "chat_template": _TEMPLATE,
        "chat_template_kwargs": {_WRITTEN: write(turns, request.tools)},
    }


def _as_videos(turn: Turn) -> Turn:
    parts = (Media.VIDEO if part is Media.IMAGE else part for part in turn.parts)
    return replace(turn, parts=tuple(parts))


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


def _media(
    request: EngineRequest, files: _Files, *, as_videos: bool
) -> dict[Media, Iterator[dict[str, Any]]]:
    """Return the parts of each kind of media, in order; each is made where it is taken."""
    frames = (image[np.newaxis] for image in request.images)
    images = (_video(one, files) for one in frames)
    return {
        Media.IMAGE: images if as_videos else (_image(one, files) for one in request.images),
        Media.VIDEO: (_video(video.pixels, files) for video in request.videos),
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
    arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def _image(pixels: NDArray[np.uint8], files: _Files) -> dict[str, Any]:
    file = MediaFile(pixels, _png, int(pixels.nbytes * PNG_COPIES))
    return {"type": "image_url", "image_url": {"url": files.url("image/png", file)}}


def _png(pixels: NDArray[np.uint8]) -> io.BytesIO:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG", compress_level=_PNG_LEVEL)
    return buffer


def _video(frames: NDArray[np.uint8], files: _Files) -> dict[str, Any]:
    file = MediaFile(frames, frame_file, memory_bytes(frames))
    return {"type": "video_url", "video_url": {"url": files.url(MEDIA_TYPE, file)}}
