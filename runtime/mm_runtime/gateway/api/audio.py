"""Wire types of OpenAI's transcriptions and translations."""

import json
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, ValidationInfo, WithJsonSchema, field_validator

from mm_runtime.gateway.api.openai import MAX_TOKENS, GenerationRequest
from mm_runtime.gateway.api.unused import OF_OTHER_SERVERS

TRANSCRIBE, TRANSLATE = "transcribe", "translate"
"""As checkpoints name their tasks."""


SUBTITLES = ("srt", "vtt")
_ONE_PIECE = (*SUBTITLES, "verbose_json")


_Granularity = Annotated[
    Literal["segment", "word"], WithJsonSchema({"type": "string", "const": "segment"})
]
"""Times of words are refused with a message of their own."""


class TranscriptionRequest(GenerationRequest):
    """Form of `POST /v1/audio/transcriptions`; all fields but the file are text."""

    task: ClassVar[str] = TRANSCRIBE
    # All of a form is text: json.dumps, and Python's own spelling.
    others: ClassVar[Mapping[str, tuple[object, ...]]] = {
        name: tuple(text for one in values for text in (json.dumps(one), str(one)))
        for name, values in OF_OTHER_SERVERS.items()
    }

    file: bytes
    n: int | None = Field(default=None, ge=1, le=1)
    max_completion_tokens: int | None = Field(default=None, ge=1, le=MAX_TOKENS)
    language: str | None = Field(default=None, min_length=2, max_length=16)
    """A code. Absent: the checkpoint detects the language, where the engine can give logits."""

    response_format: Literal["json", "text", "srt", "verbose_json", "vtt"] = "json"
    temperature: float | None = Field(default=None, ge=0, le=1)
    stream: bool | None = None
    timestamp_granularities: list[_Granularity] | None = Field(default=None, max_length=8)
    # Not served; absent or empty means that the client does not use it.
    stream_options: None = None
    chunking_strategy: None = None
    include: None = None
    keywords: None = None
    known_speaker_names: None = None
    known_speaker_references: None = None
    languages: None = None
    prompt: None = None

    @field_validator("response_format")
    @classmethod
    def _of_text(cls, form: str, info: ValidationInfo) -> str:
        if info.data.get("stream") and form in _ONE_PIECE:
            message = "a stream has text alone; leave it or `stream` out"
            raise ValueError(message)
        return form

    @field_validator("timestamp_granularities")
    @classmethod
    def _of_segments(cls, wanted: list[str] | None, info: ValidationInfo) -> list[str] | None:
        if wanted and "word" in wanted:
            message = "times of words are not computed here; request `segment`"
            raise ValueError(message)
        if wanted and info.data.get("response_format") != "verbose_json":
            message = "`response_format` must be verbose_json as well"
            raise ValueError(message)
        return wanted

    @field_validator("stream_options", mode="before")
    @classmethod
    def _of_completions(cls, options: object) -> object:
        if options is not None:
            message = "events of a transcription say no usage; leave it out"
            raise ValueError(message)
        return options

    @property
    def must_be_timed(self) -> bool:
        return self.response_format in SUBTITLES or bool(self.timestamp_granularities)

    @property
    def may_be_timed(self) -> bool:
        return self.must_be_timed or self.response_format == "verbose_json"


class TranslationRequest(TranscriptionRequest):
    """Form of `POST /v1/audio/translations`, whose answer is English; `language` is the audio's."""

    task: ClassVar[str] = TRANSLATE

    to_language: Literal["en"] | None = None
    """The one into which checkpoints have learnt to translate; vLLM's clients name it."""
