"""Shapes of OpenAI's transcriptions: the full one, and the events of a stream.

No timestamps are requested of the model, so answers have none: no segments, words or subtitles.
"""

import math

from mm_runtime.gateway.api.completions import Event, Usage
from mm_runtime.gateway.api.finish_reason import FinishReason
from mm_runtime.gateway.api.json_text import encode
from mm_runtime.gateway.api.openai import TranscriptionRequest


class Transcript:
    """One transcription and the objects that carry it."""

    def __init__(self, request: TranscriptionRequest) -> None:
        self._form = request.response_format
        self._text = ""

    def full(self, text: str, reason: FinishReason, usage: Usage) -> Event | str:
        """Return the answer in the requested format."""
        del reason  # OpenAI's shapes have no place for it
        text = text.strip()
        if self._form == "text":
            return f"{text}\n"
        answer: Event = {
            "text": text,
            "usage": {"type": "duration", "seconds": math.ceil(usage.seconds)},
        }
        if self._form == "json":
            return answer
        details = {"task": "transcribe", "language": usage.language}
        return {**answer, **details, "duration": round(usage.seconds, 3)}

    def opening(self, usage: Usage) -> list[Event]:
        """Return nothing: a stream begins with text."""
        del usage
        return []

    def piece(self, text: str, usage: Usage | None) -> bytes:
        """Return the JSON of an event with some text."""
        del usage
        self._text += text
        return encode({"type": "transcript.text.delta", "delta": text})

    def ending(self, reason: FinishReason, usage: Usage) -> list[Event]:
        """Return the event with the full text."""
        del reason, usage
        return [{"type": "transcript.text.done", "text": self._text.strip()}]
