"""PURE: what of a request makes one replica better than another: its media, or its first turns.

A replica keeps the features of images that it has seen and the attention state of prefixes. Every
turn of a chat repeats what came before, so the key is what comes first and stays: the first image,
video or audio clip of the conversation, without one everything up to the first message of the user.
The same image in another chat has the same key.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

_PROMPT_LENGTH = 256
"""Characters of a prompt without messages: long enough to differ, short enough to stay while it
grows."""

_MEDIA = ("image_url", "video_url", "audio_url", "input_audio", "input_image")
"""Types of parts that hold a file, which are also the names of their content; `input_image` of
`/v1/responses` has it in `image_url`."""


def affinity_of(request: dict[str, Any]) -> bytes | None:
    """Return the key of a parsed JSON request; None when every replica is as good.

    Equal keys belong to one replica. What is malformed is skipped: the gateway says what is wrong
    with it.
    """
    messages = request.get("messages", request.get("input"))
    if isinstance(messages, list):
        return _of_messages(request.get("instructions"), [m for m in messages if _is_object(m)])
    prompt = messages if messages is not None else request.get("prompt")
    if isinstance(prompt, list) and prompt:
        prompt = prompt[0]  # of several, whose prefixes differ
    if not isinstance(prompt, str) or not prompt:
        return None
    return _digest(prompt[:_PROMPT_LENGTH])


def _of_messages(instructions: Any, messages: list[dict[str, Any]]) -> bytes | None:
    for file in _files(messages):
        return _digest(file)
    prefix = list(_until_user(messages))
    return _digest([instructions, prefix]) if prefix else None


def _files(messages: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the files of a conversation: their URLs, or their content as base64."""
    for message in messages:
        parts = message.get("content")
        for part in parts if isinstance(parts, list) else ():
            kind = part.get("type") if _is_object(part) else None
            if kind not in _MEDIA:
                continue
            content = part.get("image_url" if kind == "input_image" else kind)
            if isinstance(content, dict):
                content = content.get("data" if kind == "input_audio" else "url")
            if isinstance(content, str) and content:
                yield content


def _until_user(messages: Iterable[dict[str, Any]]) -> Iterator[list[Any]]:
    for message in messages:
        yield [message.get("role"), message.get("content")]
        if message.get("role") == "user":
            return


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _digest(content: Any) -> bytes:
    text = content.encode(errors="replace") if isinstance(content, str) else orjson.dumps(content)
    return hashlib.blake2b(text, digest_size=16).digest()
