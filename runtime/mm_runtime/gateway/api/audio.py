"""Wire types of OpenAI's transcriptions and translations.

No times are requested of the model, so what would need them is refused: subtitles and segments.
"""

from typing import ClassVar, Literal

from pydantic import Field

from mm_runtime.gateway.api.openai import GenerationRequest

TRANSCRIBE, TRANSLATE = "transcribe", "translate"
"""As checkpoints name their tasks."""


class TranscriptionRequest(GenerationRequest):
    """Form of `POST /v1/audio/transcriptions`; all fields but the file are text."""

    task: ClassVar[str] = TRANSCRIBE

    file: bytes
    n: Literal[1] | None = None
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


class TranslationRequest(TranscriptionRequest):
    """Form of `POST /v1/audio/translations`, whose answer is English; `language` is the audio's."""

    task: ClassVar[str] = TRANSLATE
