"""Shapes of OpenAI's transcriptions and translations: the full one, and the events of a stream.

No timestamps are requested of the model, so answers have none: no segments, words or subtitles.
"""

import math
from collections.abc import Sequence

from mm_edge.json_text import encode
from mm_runtime.gateway.api.audio import TRANSCRIBE, TranscriptionRequest
from mm_runtime.gateway.api.completions import Answer, Event, Usage
from mm_runtime.gateway.api.finish_reason import FinishReason
from mm_runtime.gateway.api.scores import TokenScore


class Transcript:
    """One transcription and the objects that carry it."""

    def __init__(self, request: TranscriptionRequest) -> None:
        self._form, self._task = request.response_format, request.task
        self._text = ""

    def full(self, answers: Sequence[Answer], usage: Usage) -> Event | str:
        """Return the answer in the requested format, which has no place for the reason."""
        text = answers[0].text.strip()
        if self._form == "text":
            return f"{text}\n"
        answer: Event = {
            "text": text,
            "usage": {"type": "duration", "seconds": math.ceil(usage.seconds)},
        }
        if self._form == "json":
            return answer
        language = usage.language if self._task == TRANSCRIBE else "en"
        details = {"task": self._task, "language": language}
        return {**answer, **details, "duration": round(usage.seconds, 3)}

    def opening(self, usage: Usage) -> list[Event]:
        """Return nothing: a stream begins with text."""
        del usage
        return []

    def pieces(
        self, text: str, usage: Usage | None, index: int = 0, scores: Sequence[TokenScore] = ()
    ) -> list[bytes]:
        """Return the JSON of an event with some text."""
        del usage, index, scores
        self._text += text
        return [encode({"type": "transcript.text.delta", "delta": text})]

    def ended(self, index: int, reason: FinishReason, usage: Usage) -> list[Event]:
        """Return nothing: the last event says it."""
        del index, reason, usage
        return []

    def ending(self, usage: Usage) -> list[Event]:
        """Return the event with the full text."""
        del usage
        return [{"type": "transcript.text.done", "text": self._text.strip()}]
