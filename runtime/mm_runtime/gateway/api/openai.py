"""Wire types of OpenAI's completions and transcriptions, as far as this gateway serves them.

A field that would change the answer and is not served is refused by name, never ignored. Fields
that only label a request (`user`, `metadata`, ...) are accepted and have no effect.
"""

from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    Tag,
    ValidationInfo,
    field_validator,
)

_INT64 = 2**63 - 1
_INT31 = 2**31 - 1
MAX_FPS = 240
"""More than videos have."""
MAX_STOPS = 4
"""OpenAI's limit on stop strings."""
MAX_MESSAGES = 4096
MAX_PARTS = 1024
"""Of one message. Reading ends at the first wrong one: the errors of many parts take gigabytes."""
MAX_LABELS = 16
"""OpenAI's limit on pairs of `metadata`."""


class _Wire(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class TextPart(_Wire):
    """Text of a message."""

    type: Literal["text"]
    text: str


class ImageUrl(_Wire):
    """Where an image is: a `data:` URL or an http(s) URL."""

    url: str = Field(min_length=1)
    detail: Literal["auto", "low", "high"] = "auto"
    """Accepted for compatibility: these models see every image at one size."""


class ImagePart(_Wire):
    """An image of a message."""

    type: Literal["image_url"]
    image_url: ImageUrl


class VideoUrl(_Wire):
    """Where a video is: a `data:` URL or an http(s) URL; and which of its frames are used.

    No fields of OpenAI's, spelt as DashInfer-VLM and Qwen's own tools do.
    """

    url: str = Field(min_length=1)
    fps: float | None = Field(default=None, gt=0, le=MAX_FPS)
    num_frames: int | None = Field(default=None, ge=1, le=_INT31)
    max_frames: int | None = Field(default=None, ge=1, le=_INT31)


class VideoPart(_Wire):
    """A video of a message; no part of OpenAI's, spelt as other servers of open models do."""

    type: Literal["video_url"]
    video_url: VideoUrl


ContentPart = Annotated[TextPart | ImagePart | VideoPart, Field(discriminator="type")]


def _is_remote(part: TextPart | ImagePart | VideoPart) -> bool:
    match part:
        case ImagePart():
            url = part.image_url.url
        case VideoPart():
            url = part.video_url.url
        case TextPart():
            return False
    return url[:5].lower() != "data:"


def _form(value: object) -> str:
    return "<parts>" if isinstance(value, list) else "<string>"


def _form_or_null(value: object) -> str:
    return "<null>" if value is None else _form(value)


# Chosen by form, so that a wrong part is reported as such, not as "should be a string".
Content = Annotated[
    Annotated[str, Tag("<string>")]
    | Annotated[
        list[ContentPart],
        Field(min_length=1, max_length=MAX_PARTS, fail_fast=True),
        Tag("<parts>"),
    ]
    | Annotated[None, Tag("<null>")],
    Discriminator(_form_or_null),
]


class Message(_Wire):
    """One turn of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Content
    tool_call_id: str | None = Field(default=None, max_length=256)
    """Of the role `tool`: a label, since no template here names the call."""

    name: str | None = Field(default=None, max_length=64)
    # What OpenAI's client adds when an answer is sent back as part of the conversation.
    refusal: None = None
    annotations: Annotated[list[object], Field(max_length=0)] | None = None
    audio: None = None
    function_call: None = None
    tool_calls: Annotated[list[object], Field(max_length=0)] | None = None

    @field_validator("content")
    @classmethod
    def _said(cls, content: Content, info: ValidationInfo) -> Content:
        """Let only the assistant say nothing, as it does where it has called a tool."""
        if content is None and info.data.get("role") != "assistant":
            message = "expected a text or parts; only of the role assistant it may be null"
            raise ValueError(message)
        return content


class StreamOptions(_Wire):
    """What a stream holds besides the answer."""

    include_usage: StrictBool = False
    continuous_usage_stats: StrictBool = False
    """No field of OpenAI's, spelt as vLLM does: every chunk says the usage so far."""
    include_obfuscation: StrictBool = False


class ResponseFormat(_Wire):
    """Only plain text."""

    type: Literal["text"]


def _check_stops(stops: list[str]) -> list[str]:
    if len(stops) > MAX_STOPS or not all(stops):
        message = f"expected at most {MAX_STOPS} strings, none of them empty"
        raise ValueError(message)
    return stops


Stops = Annotated[
    Annotated[str, Field(min_length=1), Tag("<string>")]
    | Annotated[list[str], AfterValidator(_check_stops), Tag("<parts>")],
    Discriminator(_form),
]


class GenerationRequest(_Wire):
    """Parameters that both kinds of completions have."""

    model: str = Field(min_length=1)
    max_tokens: int | None = Field(default=None, ge=1, le=_INT64)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    seed: int | None = Field(default=None, ge=-_INT64 - 1, le=_INT64)
    stop: Stops | None = None
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    n: Literal[1] | None = None
    # Not served; null means that the client does not use it.
    logit_bias: None = None
    cache_salt: str | None = Field(default=None, min_length=1, max_length=256)
    """No part of OpenAI's, spelt as vLLM does: what was made of images is shared with requests of
    the same salt only."""

    # A label without effect on the answer.
    user: str | None = None

    @property
    def fetches(self) -> bool:
        """Whether a file stands behind an address, and not in the request."""
        return False

    @property
    def token_limit(self) -> int | None:
        """Most tokens to generate, as requested."""
        return self.max_tokens

    @property
    def stops(self) -> tuple[str, ...]:
        """Stop strings, without duplicates."""
        if self.stop is None:
            return ()
        return tuple(dict.fromkeys([self.stop] if isinstance(self.stop, str) else self.stop))


class ChatRequest(GenerationRequest):
    """Body of `POST /v1/chat/completions`."""

    messages: list[Message] = Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True)
    max_completion_tokens: int | None = Field(default=None, ge=1, le=_INT64)
    logprobs: Literal[False] | None = None
    top_logprobs: Literal[0] | None = None
    response_format: ResponseFormat | None = None
    tool_choice: Literal["none"] | None = None
    # Not served; null means that the client does not use it.
    audio: None = None
    function_call: None = None
    functions: None = None
    modalities: None = None
    parallel_tool_calls: None = None
    prediction: None = None
    reasoning_effort: None = None
    tools: Annotated[list[object], Field(max_length=0)] | None = None
    verbosity: None = None
    web_search_options: None = None
    # Labels without effect on the answer.
    metadata: Annotated[dict[str, str], Field(max_length=MAX_LABELS)] | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    store: Literal[False] | None = None
    service_tier: Literal["auto", "default"] | None = None

    @property
    def fetches(self) -> bool:
        """Whether an image or a video stands behind an address, and not in the request."""
        parts = (part for message in self.messages for part in message.content or ())
        return any(_is_remote(part) for part in parts if not isinstance(part, str))

    @property
    def token_limit(self) -> int | None:
        """Most tokens to generate; the newer name wins."""
        if self.max_completion_tokens is not None:
            return self.max_completion_tokens
        return self.max_tokens


def _one_text(prompts: list[str]) -> list[str]:
    if len(prompts) != 1 or not prompts[0]:
        message = f"got {len(prompts)} prompts; send one that is not empty, and a request for each"
        raise ValueError(message)
    return prompts


Prompt = Annotated[
    Annotated[str, Field(min_length=1), Tag("<string>")]
    | Annotated[list[str], AfterValidator(_one_text), Tag("<parts>")],
    Discriminator(_form),
]


class CompletionRequest(GenerationRequest):
    """Body of `POST /v1/completions`."""

    prompt: Prompt
    best_of: Literal[1] | None = None
    echo: Literal[False] | None = None
    logprobs: None = None
    suffix: None = None

    @property
    def text(self) -> str:
        """The prompt."""
        return self.prompt if isinstance(self.prompt, str) else self.prompt[0]


class TranscriptionRequest(GenerationRequest):
    """Form of `POST /v1/audio/transcriptions`; all fields but the file are text."""

    file: bytes
    language: str | None = Field(default=None, min_length=2, max_length=16)
    """A code. Absent: the checkpoint detects the language, where the engine can give logits."""

    response_format: Literal["json", "text", "verbose_json"] = "json"
    temperature: float | None = Field(default=None, ge=0, le=1)
    stream: bool | None = None
    # Not served; absent or empty means that the client does not use it.
    prompt: Literal[""] | None = None
    chunking_strategy: None = None
    include: None = None
    keywords: None = None
    known_speaker_names: None = None
    known_speaker_references: None = None
    languages: None = None
    timestamp_granularities: None = None
