"""Wire types of the messages of a conversation, and of what stands in them."""

import re
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    ValidationInfo,
    field_validator,
)

from mm_edge.json_cost import TEXT_BYTES
from mm_runtime.gateway.api.tools import MAX_CALLS, CalledFunction, ToolCall
from mm_runtime.gateway.api.unused import OF_MESSAGES
from mm_runtime.gateway.api.wire import JsonObject, Wire, form_or_null, null_is

MAX_FPS = 240
"""More than videos have."""
MAX_PARTS = 1024
"""In one message. Reading ends at the first wrong one: the errors of many parts take gigabytes."""
MAX_MESSAGES = 4096
MAX_ALL_TEXT = TEXT_BYTES
"""Characters of the texts of a conversation. The body's own bound takes letters for images: 24 MB
of them were 0.3 s of the event loop, where prompts are written."""
MAX_ALL_ARGUMENTS = 256 * 1024
"""Characters of the arguments of all calls of a conversation."""
_INT31 = 2**31 - 1

Url = Annotated[
    str,
    StringConstraints(min_length=1, strip_whitespace=True),
    Field(json_schema_extra={"pattern": r"\S"}),
]
"""Blanks around it are no part of it, in browsers too."""


class TextPart(Wire):
    """Text of a message; go-openai leaves out an empty one."""

    type: Literal["text"]
    text: Annotated[str, null_is("")] = ""


class RefusalPart(Wire):
    """What an assistant has said instead of an answer, as OpenAI's API sends it: its text."""

    type: Literal["refusal"]
    text: str = Field(alias="refusal")


class ThoughtPart(Wire):
    """What an assistant has thought, among what it has said; see `THOUGHTS`."""

    type: Literal["thinking", "redacted_thinking", "reasoning"]
    thinking: str | list[JsonObject] | None = None
    text: str | None = None
    data: str | None = None
    signature: str | None = None
    closed: bool | None = None


AS_OBJECT = BeforeValidator(lambda value: {"url": value} if isinstance(value, str) else value)
"""Ollama's and LiteLLM's clients, among others, send the URL itself."""


class ImageUrl(Wire):
    """Where an image is: a `data:` URL or an http(s) URL."""

    url: Url
    detail: Annotated[Literal["auto", "low", "high"], null_is("auto")] = "auto"


class ImagePart(Wire):
    """An image of a message."""

    type: Literal["image_url"]
    image_url: Annotated[ImageUrl, AS_OBJECT]


class VideoUrl(Wire):
    """Where a video is: a `data:` URL or an http(s) URL; and which of its frames are used.

    No fields of OpenAI's, spelt as DashInfer-VLM and Qwen's own tools do.
    """

    url: Url
    fps: float | None = Field(default=None, gt=0, le=MAX_FPS)
    num_frames: int | None = Field(default=None, ge=1, le=_INT31)
    max_frames: int | None = Field(default=None, ge=1, le=_INT31)


class VideoPart(Wire):
    """A video of a message; no part of OpenAI's, spelt as other servers of open models do."""

    type: Literal["video_url"]
    video_url: Annotated[VideoUrl, AS_OBJECT]


class InputAudio(Wire):
    """A recording in base64, as OpenAI spells it; of the formats it has the first two."""

    data: str = Field(min_length=1)
    format: Literal["wav", "mp3", "flac", "ogg", "m4a", "webm"]


class InputAudioPart(Wire):
    """A recording of a message."""

    type: Literal["input_audio"]
    input_audio: InputAudio


class AudioUrl(Wire):
    """Where a recording is: a `data:` URL or an http(s) URL."""

    url: Url


class AudioPart(Wire):
    """A recording of a message; no part of OpenAI's, spelt as vLLM does."""

    type: Literal["audio_url"]
    audio_url: Annotated[AudioUrl, AS_OBJECT]


Part = TextPart | RefusalPart | ThoughtPart | ImagePart | VideoPart | InputAudioPart | AudioPart
_TEXTS = (TextPart, RefusalPart)
ContentPart = Annotated[Part, Field(discriminator="type")]


def is_remote(part: Part) -> bool:
    """Return whether a part stands behind an address, and not in the request."""
    at = getattr(part, part.type, None)
    return isinstance(at, ImageUrl | VideoUrl | AudioUrl) and at.url[:5].lower() != "data:"


# Chosen by form, so that a wrong part is reported as such, not as "should be a string".
Content = Annotated[
    Annotated[str, Tag("<string>")]
    | Annotated[
        list[ContentPart],
        Field(max_length=MAX_PARTS, fail_fast=True),
        Tag("<parts>"),
    ]
    | Annotated[None, Tag("<null>")],
    Discriminator(form_or_null),
]

_MEDIA_AS_TEXT = re.compile(
    r"\s*(?:(?i:data:(?:image|video|audio)/)|iVBORw0KGgo|/9j/|R0lGOD|UklGR)"
    r"\S{40,}(?:[\r\n]+[A-Za-z0-9+/=]+)*\s*"
)
"""A `data:` URL, or the base64 of a PNG, JPEG, GIF, WebP or WAV; in one line or in many."""

THOUGHTS = ("reasoning", "reasoning_content", "thinking", "reasoning_details", "thinking_blocks")
"""Spellings of what an assistant has thought: dropped, or refused where a template writes it."""


class Message(Wire):
    """One turn of the conversation."""

    others = OF_MESSAGES

    role: Annotated[
        Literal["system", "developer", "user", "assistant", "tool", "function"],
        AfterValidator(lambda role: "tool" if role == "function" else role),
    ]
    """`function` is what OpenAI called `tool` before."""

    tool_call_id: str | None = Field(default=None, max_length=256)
    """For the role `tool`: which call it answers."""

    name: str | None = Field(default=None, max_length=64)
    refusal: str | None = None
    """For the role `assistant`: what it has said instead of an answer, the end of its text."""

    reasoning: str | None = None
    reasoning_content: str | None = None
    thinking: str | None = None
    reasoning_details: list[JsonObject] | None = None
    thinking_blocks: list[JsonObject] | None = None

    # What OpenAI's client adds when an answer is sent back as part of the conversation.
    annotations: Annotated[list[object], Field(max_length=0)] | None = None
    audio: None = None
    function_call: CalledFunction | None = None
    """What `tool_calls` with one call was before."""

    tool_calls: Annotated[list[ToolCall], Field(max_length=MAX_CALLS)] | None = Field(
        default=None, validate_default=True
    )
    """For the role `assistant`: what it has called."""

    content: Content = Field(default=None, validate_default=True)

    @field_validator("refusal", *THOUGHTS)
    @classmethod
    def _own(cls, said: object, info: ValidationInfo) -> object:
        if said and info.data.get("role") != "assistant":
            message = "only the role assistant has it"
            raise ValueError(message)
        return said or None

    @field_validator("tool_calls")
    @classmethod
    def _called(cls, calls: list[ToolCall] | None, info: ValidationInfo) -> list[ToolCall] | None:
        called = info.data.get("function_call")
        if (calls or called) and info.data.get("role") != "assistant":
            message = "only the role assistant calls tools"
            raise ValueError(message)
        if calls and called:
            message = "expected this or `function_call`, not both"
            raise ValueError(message)
        return [ToolCall.model_validate({"function": called})] if called else calls

    @field_validator("content")
    @classmethod
    def _said(cls, content: Content, info: ValidationInfo) -> Content:
        """Let only the assistant say nothing, and tools find nothing: templates want a text then.

        Null stays where the assistant has called a tool.
        """
        role, refusal = info.data.get("role"), info.data.get("refusal")
        parts = content if isinstance(content, list) else ()
        texts = [content] if isinstance(content, str) else []
        texts += [one.text for one in parts if isinstance(one, TextPart)]
        if role != "assistant" and any(map(_MEDIA_AS_TEXT.fullmatch, texts)):
            message = (
                "a text that is nothing but a file would be read letter by letter: send it as a "
                'part, such as {"type": "image_url", "image_url": {"url": "data:image/png;..."}}'
            )
            raise ValueError(message)
        if role != "assistant" and any(isinstance(one, RefusalPart | ThoughtPart) for one in parts):
            message = "only the role assistant refuses and thinks: send parts of the type text"
            raise ValueError(message)
        if refusal:
            said = [TextPart(type="text", text=content)] if isinstance(content, str) else parts
            return [*said, RefusalPart(type="refusal", refusal=refusal)] if content else refusal
        if content is None and role not in {"assistant", "tool"}:
            message = "expected a text or parts; only of assistant and tool it may be absent"
            raise ValueError(message)
        if content:
            return content
        if content == [] and role not in {"assistant", "tool"}:
            message = "expected at least one part"
            raise ValueError(message)
        return None if content is None and info.data.get("tool_calls") else ""


def texts_of(messages: list[Message]) -> list[str]:
    """Return what messages say, without the calls of tools."""
    contents = [message.content for message in messages]
    texts = [one for one in contents if isinstance(one, str)]
    lists = [one for one in contents if one is not None and not isinstance(one, str)]
    return texts + [part.text for parts in lists for part in parts if isinstance(part, _TEXTS)]


def _little_text(messages: list[Message]) -> list[Message]:
    if sum(map(len, texts_of(messages))) > MAX_ALL_TEXT:
        message = (
            f"the texts of all messages have more than {MAX_ALL_TEXT} characters: shorten them"
        )
        raise ValueError(message)
    return messages


def _few_arguments(messages: list[Message]) -> list[Message]:
    calls = [call for message in messages for call in message.tool_calls or ()]
    if sum(len(call.function.arguments) for call in calls) > MAX_ALL_ARGUMENTS:
        message = f"the arguments of all calls have more than {MAX_ALL_ARGUMENTS} characters"
        raise ValueError(message)
    return messages


Messages = Annotated[
    list[Message],
    Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True),
    AfterValidator(_little_text),
    AfterValidator(_few_arguments),
]
