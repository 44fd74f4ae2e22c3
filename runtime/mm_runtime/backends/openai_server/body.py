"""The body of a chat: messages, and the files of their media, which are made as they are sent."""

import io
import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import aiohttp
import numpy as np
from numpy.typing import NDArray

from mm_api.gateway_memory import IMAGE_COPIES
from mm_runtime.base.chat_template import Call, Media, Turn
from mm_runtime.gateway.backends.engine import EngineRequest
from mm_runtime.gateway.media.as_sent import AsSent
from mm_runtime.gateway.media.audio import encode_wav
from mm_runtime.gateway.media.frames import Video
from mm_runtime.gateway.media.video import FRAME_ROW

_IMAGE_TYPE = "image/x-portable-pixmap"
"""A header and the pixels: the bytes cross loopback, and a PNG of 336 x 336 takes 20 ms of both
sides' processors, where this takes less than one."""

_AUDIO_TYPE = "audio/wav"
_WAV_COPIES = 4
"""Copies of samples while they become steps of sixteen bits, which is what they were read as."""

_MARK_BYTES = 16
"""Size of a mark in the place of each file, which no text of a client's can hold by chance."""

_WRITTEN = "written_prompt"
_TEMPLATE = "{{ " + _WRITTEN + " }}"
"""One for all requests: transformers keeps the last 128 compiled, and a prompt in it would be one
each."""

Part: TypeAlias = dict[str, Any]
"""One of a message's `content`."""


@dataclass(frozen=True, slots=True)
class MediaFile:
    """A file of pixels or samples, which is made when it is sent: it is as large as they are."""

    encode: Callable[[], io.BytesIO]
    memory_bytes: int
    """That it takes while it is made and sent; 0: it is there, as it came."""


@dataclass(frozen=True, slots=True)
class ChatBody:
    """A body in its order: JSON, then each file, as base64, and the JSON behind it."""

    first: bytes
    files: tuple[tuple[MediaFile, bytes], ...]
    release: Callable[[bool], None] = lambda _: None
    """Called once it is known whether the server has answered it completely."""

    path: str = "/v1/chat/completions"
    form: aiohttp.FormData | None = None
    """Sent in place of all of it."""


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a body, in the order of its JSON."""

    mark: str = field(default_factory=lambda: secrets.token_hex(_MARK_BYTES))
    found: list[MediaFile] = field(default_factory=list)

    def url(self, media_type: str, *files: MediaFile) -> str:
        """Return a URL with a mark in the place of each file; parts are made in their order."""
        self.found.extend(files)
        return f"data:{media_type};base64,{','.join([self.mark] * len(files))}"

    def body(self, content: Mapping[str, Any]) -> ChatBody:
        """Return the body of JSON that has these files' URLs."""
        first, *others = json.dumps(content).encode().split(self.mark.encode())
        return ChatBody(first, tuple(zip(self.found, others, strict=True)))


def sampling_fields(request: EngineRequest) -> dict[str, Any]:
    """Return what is requested of a stream, and how its tokens are drawn.

    What is not used is not sent: defaults of servers differ by version.
    """
    sampling = request.sampling
    fields: dict[str, Any] = {
        "max_tokens": request.max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": sampling.temperature,
        **{one.name: value for one, value in sampling.used()},
    }
    used = {
        "ignore_eos": sampling.ignores_end,
        "logit_bias": {str(token): bias for token, bias in sampling.bias},
        "stop_token_ids": sorted(request.stop_ids),
        "logprobs": request.likeliest is not None,
        "top_logprobs": request.likeliest,
        "cache_salt": request.cache_salt,
    }
    fields |= {name: value for name, value in used.items() if value}
    if request.shows_special:
        fields["skip_special_tokens"] = False
    return fields


def conversation(request: EngineRequest, parts: Mapping[Media, Iterator[Part]]) -> dict[str, Any]:
    """Return the fields of a conversation that the server writes, `parts` as of `media_parts`."""
    messages = [_message(turn, parts) for turn in request.turns]
    if not request.tools:
        return {"messages": messages}
    # Without `tool_choice`: versions differ in the words that they take, and a function that is
    # named makes them wrap whatever the answer is. The form makes the call.
    tools = [{"type": "function", "function": dict(tool)} for tool in request.tools]
    return {"messages": messages, "tools": tools}


def written_prompt(prompt: str, media: list[Part]) -> dict[str, Any]:
    """Return the fields of a conversation that is written here: its media, and a template of it."""
    return {
        "messages": [{"role": "user", "content": media or ""}],
        "chat_template": _TEMPLATE,
        "chat_template_kwargs": {_WRITTEN: prompt},
    }


def media_parts(request: EngineRequest, files: Files) -> dict[Media, Iterator[Part]]:
    """Return the parts of each kind of media, in order; each is made where it is taken.

    `files`: of the body, to which each part adds its own.
    """
    return {
        Media.IMAGE: (_image(one, files) for one in request.images),
        Media.VIDEO: (_frames_in_a_row(video, files) for video in request.videos),
        Media.AUDIO: (_audio(samples, files) for samples in request.recordings),
    }


def _message(turn: Turn, parts: Mapping[Media, Iterator[Part]]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": turn.role, "content": _content(turn, parts)}
    if turn.calls:
        message["tool_calls"] = [_call(call) for call in turn.calls]
    if turn.answers is not None:
        message["tool_call_id"] = turn.answers
    return message


def _content(turn: Turn, parts: Mapping[Media, Iterator[Part]]) -> Any:
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


def _image(pixels: NDArray[np.uint8], files: Files) -> Part:
    if isinstance(pixels, AsSent):
        sent = MediaFile(partial(io.BytesIO, pixels.file), 0)
        return {"type": "image_url", "image_url": {"url": files.url(pixels.media_type, sent)}}
    url = files.url(_IMAGE_TYPE, pixmap_file(pixels))
    return {"type": "image_url", "image_url": {"url": url}}


def _frames_in_a_row(video: Video, files: Files) -> Part:
    sent = map(pixmap_file, video.pixels)
    return {"type": "video_url", "video_url": {"url": files.url(FRAME_ROW, *sent)}}


def pixmap_file(pixels: NDArray[np.uint8]) -> MediaFile:
    return MediaFile(partial(_pixmap, pixels), int(pixels.nbytes * IMAGE_COPIES))


def _pixmap(pixels: NDArray[np.uint8]) -> io.BytesIO:
    height, width, _ = pixels.shape
    file = io.BytesIO()
    file.write(b"P6 %d %d 255\n" % (width, height))
    file.write(np.ascontiguousarray(pixels).data)
    return file


def _audio(samples: NDArray[np.float32], files: Files) -> Part:
    file = MediaFile(lambda: io.BytesIO(encode_wav(samples)), _WAV_COPIES * samples.nbytes)
    return {"type": "audio_url", "audio_url": {"url": files.url(_AUDIO_TYPE, file)}}
