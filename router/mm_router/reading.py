"""PURE: the body of a request -> its model, its affinity, its work, and it with another name.

Bodies are passed on as they came; only a name that the model's gateway does not know is replaced.

A replica keeps the features of images that it has seen and the attention state of prefixes. Every
turn of a chat repeats what came before, so the key is what comes first and stays: the first image,
video or audio clip of the conversation, without one everything up to the first message of the user.
The same image in another chat has the same key.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from mm_edge.errors import InvalidRequestError
from mm_edge.json_cost import check_cost
from mm_edge.json_text import without_mark
from mm_router.demand import MEDIA, Demand, audio_tokens, demand_of

_PROMPT_LENGTH = 256
"""Characters of a prompt without messages: long enough to differ, short enough to stay while it
grows."""


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
            if not isinstance(kind, str) or kind not in MEDIA:
                continue
            field, inner, _ = MEDIA[kind]
            content = part.get(field)
            if isinstance(content, dict):
                content = content.get(inner)
            if isinstance(content, str) and content:
                yield content


def _until_user(messages: Iterable[dict[str, Any]]) -> Iterator[list[Any]]:
    for message in messages:
        yield [message.get("role"), message.get("content")]
        if message.get("role") == "user":
            return


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _written(content: Any) -> bytes:
    try:
        return orjson.dumps(content)
    except orjson.JSONEncodeError:  # it reads four times as many levels as it writes
        raise InvalidRequestError("The body is nested too deeply. Flatten it.") from None


def _digest(content: Any) -> bytes:
    text = content.encode(errors="replace") if isinstance(content, str) else _written(content)
    return hashlib.blake2b(text, digest_size=16).digest()


_MOST_FIELDS = 32
"""In one form, as at the gateway."""

_MODEL = "`model` is missing: the name of a model, as /v1/models lists them."


@dataclass(frozen=True, slots=True)
class Reading:
    """What a request says about its way; `named` returns its body with another model's name."""

    model: str
    affinity: bytes | None
    demand: Demand
    named: Callable[[str], bytes]
    streams: bool = False


def read_json(body: bytes, _content_type: str) -> Reading:
    """Read a JSON body, which is JSON whatever a client calls it.

    Raises:
        InvalidRequestError: no JSON object, without a model, or more elements than any needs.
    """
    check_cost(body)
    try:
        request: Any = orjson.loads(without_mark(body))
    except orjson.JSONDecodeError as error:
        raise InvalidRequestError(f"The body is not JSON: {error}.") from None
    if not isinstance(request, dict):
        raise InvalidRequestError("The body must be a JSON object.")
    model = request.get("model")
    if not isinstance(model, str) or not model:
        raise InvalidRequestError(_MODEL, param="model")

    def named(name: str) -> bytes:
        return _written({**request, "model": name})

    streams = request.get("stream") is True
    return Reading(model, affinity_of(request), demand_of(request), named, streams)


def read_form(body: bytes, content_type: str) -> Reading:
    """Read a form: a transcription. Its audio has no place that knows it.

    Raises:
        InvalidRequestError: no form, a damaged one, or one without a model.
    """
    start, end = _field(body, content_type, b"model")
    try:
        model = body[start:end].decode()
    except UnicodeDecodeError:
        raise InvalidRequestError("`model` is not UTF-8.", param="model") from None
    demand = Demand(audio=audio_tokens(len(body)))
    return Reading(model, None, demand, lambda name: body[:start] + name.encode() + body[end:])


def _field(body: bytes, content_type: str, wanted: bytes) -> tuple[int, int]:
    """Return where the content of a form's field begins and ends; of several the last."""
    kind, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if kind != b"multipart/form-data" or not boundary:
        raise InvalidRequestError(
            "The body must be a form: Content-Type multipart/form-data with a boundary."
        )
    found = _FieldFinder(wanted)
    try:
        parser = MultipartParser(boundary, found.callbacks())
        parser.write(body)
        parser.finalize()
    except FormParserError as error:
        raise InvalidRequestError(f"The form is damaged: {error}.") from None
    if found.at is None or found.at[0] == found.at[1]:
        raise InvalidRequestError(_MODEL, param="model")
    return found.at


class _FieldFinder:
    """Follows a parser that gets a form at once, so that its offsets are those of the body."""

    def __init__(self, wanted: bytes) -> None:
        self._wanted = wanted
        self._header = self._value = b""
        self._is_it = False
        self._fields = 0
        self._start: int | None = None
        self._end = 0
        self.at: tuple[int, int] | None = None

    def callbacks(self) -> Any:
        """Return what the parser calls, by its own names."""
        return {
            "on_part_begin": self._part_begins,
            "on_header_field": self._header_comes,
            "on_header_value": self._value_comes,
            "on_header_end": self._header_ends,
            "on_part_data": self._data_comes,
            "on_part_end": self._part_ends,
        }

    def _part_begins(self) -> None:
        self._fields += 1
        if self._fields > _MOST_FIELDS:
            raise InvalidRequestError(f"The form has more than {_MOST_FIELDS} fields.")
        self._is_it, self._start = False, None

    def _header_comes(self, content: bytes, start: int, end: int) -> None:
        self._header += content[start:end]

    def _value_comes(self, content: bytes, start: int, end: int) -> None:
        self._value += content[start:end]

    def _header_ends(self) -> None:
        if self._header.lower() == b"content-disposition":
            _, options = parse_options_header(self._value)
            self._is_it = options.get(b"name") == self._wanted
        self._header = self._value = b""

    def _data_comes(self, _content: bytes, start: int, end: int) -> None:
        if self._start is None:
            self._start = start
        self._end = end

    def _part_ends(self) -> None:
        if self._is_it:
            self.at = (self._start or 0, self._end if self._start is not None else 0)
