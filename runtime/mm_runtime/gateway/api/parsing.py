"""Bytes of a request -> typed request, or an error that names the part and what was expected."""

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import Field, File, FormParser, parse_options_header

from mm_edge.errors import InvalidRequestError
from mm_edge.json_cost import check_cost
from mm_edge.json_text import without_mark
from mm_runtime.gateway.api.audio import TranscriptionRequest, TranslationRequest
from mm_runtime.gateway.api.openai import ChatRequest, CompletionRequest
from mm_runtime.gateway.api.parameters import NOT_SERVED
from mm_runtime.gateway.api.response_places import rename
from mm_runtime.gateway.api.responses import (
    ResponsesChat,
    ResponsesRequest,
    chat_of,
    places_of,
)
from mm_runtime.gateway.api.unused import INSTEAD, NOT_USED

_Request = TypeVar("_Request", bound=BaseModel)

_MOST_NAMED = 128
"""Characters of a key or a type that an error names: one of 24 MB was 0.5 s of the event loop."""

_MOST_ERRORS = 1000
"""All are written out to read the first, in 6 ms. Only thousands of unknown keys have more."""

_CHAT_PARTS = ("text", "image_url", "video_url", "input_audio", "audio_url", "refusal")
_RESPONSE_PARTS = ("input_text", "input_image", "output_text", "refusal")
_PARTS = frozenset({*_CHAT_PARTS, *_RESPONSE_PARTS, "thinking", "redacted_thinking", "reasoning"})
"""Types of what stands in a message."""

_OF_MEDIA = re.compile("image|video|audio|media|file|attach", re.IGNORECASE)
"""In names of fields and types: what was sent would be missed."""

_URL = "data:image/png;base64,..."
_PARTS_OF_CHATS = (
    f'Media are parts of `content`: {{"type": "image_url", "image_url": {{"url": "{_URL}"}}}}.'
)
_MEDIA = {
    "ResponsesRequest": f'Images are `content`: {{"type": "input_image", "image_url": "{_URL}"}}.',
    "CompletionRequest": "Prompts have no media: POST /v1/chat/completions.",
    **dict.fromkeys(("TranscriptionRequest", "TranslationRequest"), "The audio is `file`."),
}
"""Where they are expected, by request."""

MOST_FIELDS = 32
"""In one form; OpenAI's own has a dozen."""

_FORMS = frozenset({"response_format", "format"})
"""Places of the form of an answer."""


def _parse_json(kind: type[_Request], body: bytes, _content_type: str) -> _Request:
    check_cost(body)
    return _checked(lambda: kind.model_validate_json(without_mark(body)))


parse_chat = partial(_parse_json, ChatRequest)
parse_completion = partial(_parse_json, CompletionRequest)


def parse_response(body: bytes, content_type: str) -> ResponsesChat:
    original = _parse_json(ResponsesRequest, body, content_type)
    try:
        return _checked(lambda: chat_of(original))
    except InvalidRequestError as error:
        rename(error, places_of(original))
        raise


def read_form(body: bytes, content_type: str) -> dict[str, list[bytes]]:
    """Return name -> contents of a form's fields, in order; InvalidRequestError: it is none."""
    kind, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if kind != b"multipart/form-data" or not boundary:
        raise InvalidRequestError(
            "The body must be a form: Content-Type multipart/form-data with a boundary."
        )
    parts: list[tuple[bytes | None, bytes]] = []

    def keep(name: bytes | None, content: bytes) -> None:
        if len(parts) == MOST_FIELDS:
            raise InvalidRequestError(f"The form has more than {MOST_FIELDS} fields.")
        parts.append((name, content))

    def keep_field(field: Field) -> None:
        keep(field.field_name, field.value or b"")

    def keep_file(file: File) -> None:
        file.file_object.seek(0)
        keep(file.field_name, file.file_object.read())

    # A file larger than this would be written to disk; none is larger than the body.
    in_memory = {"MAX_MEMORY_FILE_SIZE": len(body)}
    try:
        parser = FormParser(
            kind.decode(), keep_field, keep_file, boundary=boundary, config=in_memory
        )
        parser.write(body)
        parser.finalize()
    except FormParserError as error:
        raise InvalidRequestError(f"The form is damaged: {error}.") from None
    fields: dict[str, list[bytes]] = {}
    for name, content in parts:
        fields.setdefault((name or b"").decode("utf-8", errors="replace"), []).append(content)
    return fields


def _parse_audio(
    kind: type[TranscriptionRequest], body: bytes, content_type: str
) -> TranscriptionRequest:
    fields: dict[str, bytes | str | list[str]] = {}
    for name, contents in read_form(body, content_type).items():
        # A form has no null: a field without text is one that is not used.
        texts = [
            one.decode("utf-8", errors="replace") for one in contents if one and name != "file"
        ]
        if name == "file":
            fields[name] = contents[-1]
        elif not texts:
            continue
        elif name.endswith("[]"):  # OpenAI's clients write lists so
            fields[name.removesuffix("[]")] = texts
        else:
            fields[name] = texts if name == "timestamp_granularities" else texts[-1]
    return _checked(lambda: kind.model_validate(fields))


parse_transcription = partial(_parse_audio, TranscriptionRequest)
parse_translation = partial(_parse_audio, TranslationRequest)


def _checked(validate: Callable[[], _Request]) -> _Request:
    try:
        return validate()
    except ValidationError as error:
        if error.error_count() > _MOST_ERRORS:
            raise InvalidRequestError(
                f"The body has {error.error_count()} errors, too many to name one: expected a "
                "request as OpenAI's API reference describes it."
            ) from None
        # No name here for an error: those of validators hold this frame, and with it the body.
        message, param, code = _explained(
            error.errors(include_url=False, include_input=False)[0],
            _MEDIA.get(error.title, _PARTS_OF_CHATS),
        )
    raise InvalidRequestError(message, param=param, code=code)


def _explained(error: ErrorDetails, media: str) -> tuple[str, str | None, str | None]:
    param = _path(error["loc"])
    message, code = _explain_field(error, param) if param else (_explain_body(error), None)
    sent = str(error.get("ctx", {}).get("tag", error["loc"][-1:]))
    if error["type"].startswith(("extra", "missing", "union_tag")) and _OF_MEDIA.search(sent):
        message = f"{message} {media}"
    return message, param, code


def _explain_body(error: ErrorDetails) -> str:
    if error["type"] == "json_invalid":
        reason = error["ctx"]["error"]
        half = "surrogate" in reason or "end of hex escape" in reason
        more = "; half of a character beyond U+FFFF stands there alone" if half else ""
        return f"The body is not JSON: {reason}{more}."
    return f"The body must be a completion request: {_lower(error['msg'])}."


def _explain_field(error: ErrorDetails, param: str) -> tuple[str, str | None]:
    """Return message and code for an error inside the body."""
    message = _lower(error["msg"])
    match error:
        case {"type": "too_short", "ctx": {"min_length": least, "actual_length": found}}:
            message = f"expected at least {least} item, found {found}"
        case {"type": "too_long", "ctx": {"max_length": most, "actual_length": found}}:
            message = f"expected at most {most} items, found {found or 'more'}"
        case {"type": "string_type", "loc": (*_, "<string>")}:
            message = "expected a text or a list"
    explained: tuple[str, str | None]
    if error["loc"][0] in NOT_SERVED:
        name = str(error["loc"][0])
        if values := NOT_USED.get(name):
            message = f"expected {_either(values)}"
        return (
            f"`{name}` is not served with this value: {message}. Leave it out.",
            "unsupported_parameter",
        )
    match error["type"]:
        case "extra_forbidden" if param in INSTEAD:
            explained = (f"`{param}` is not served: {INSTEAD[param]}.", "unsupported_parameter")
        case "extra_forbidden":
            values = NOT_USED.get(param)
            found = f"not served here: expected {_either(values)}" if values else "unknown here"
            explained = (f"`{param}` is {found}. Leave it out.", "unknown_parameter")
        case "missing":
            explained = (f"`{param}` is missing.", "missing_required_parameter")
        case "union_tag_invalid" | "union_tag_not_found":
            explained = (
                f"`{param}` is of unknown type {_tag(error)}; expected one of: {_kinds(error)}.",
                "invalid_content_part" if error["loc"][-1] not in _FORMS else None,
            )
        case _:
            return f"`{param}` is invalid: {message}.", None
    return explained


def _either(values: tuple[object, ...]) -> str:
    return " or ".join(map(json.dumps, values))


def _path(loc: tuple[int | str, ...]) -> str | None:
    """Write pydantic's location as `messages[0].content[2].image_url.url`."""
    path = ""
    for index, item in enumerate(loc):
        if isinstance(item, int):
            path += f"[{item}]"
        elif not _is_branch(loc, index):
            named = _short(item)
            path += f".{named}" if path else named
    return path or None


def _is_branch(loc: tuple[int | str, ...], index: int) -> bool:
    """Return whether an item of a location is the branch of a union, not a key of the request.

    Our own branches are spelt `<...>`; the type of a content part follows on its place in a list.
    What is wrong with a key itself is reported of the key.
    """
    item, before = str(loc[index]), loc[index - 1] if index else None
    if before in _FORMS:  # what follows is the type, then keys
        return True
    is_part = item in _PARTS and loc[max(0, index - 2)] == "<parts>"
    return item.startswith("<") or item == "[key]" or is_part


def _tag(error: ErrorDetails) -> str:
    context: dict[str, Any] = error.get("ctx", {})
    return _short(repr(context["tag"].strip("<>"))) if "tag" in context else "(it has no `type`)"


def _short(text: str) -> str:
    return text if len(text) <= _MOST_NAMED else f"{text[:_MOST_NAMED]}..."


def _kinds(error: ErrorDetails) -> str:
    context: dict[str, Any] = error.get("ctx", {})
    if "expected_tags" in context and "content" not in error["loc"]:
        return re.sub("['<>]", "", str(context["expected_tags"]))
    if error["loc"][-1] in _FORMS:
        return "text, json_object, json_schema"
    return ", ".join(_RESPONSE_PARTS if error["loc"][0] == "input" else _CHAT_PARTS)


def _lower(message: str) -> str:
    message = message.removeprefix("Value error, ")
    return message[:1].lower() + message[1:]
