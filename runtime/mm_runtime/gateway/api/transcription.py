"""Shapes of OpenAI's transcriptions and translations: the full one, and the events of a stream."""

import math
import zlib
from collections.abc import Sequence
from html import escape

from mm_edge.json_text import encode
from mm_runtime.gateway.api.audio import TRANSCRIBE, TranscriptionRequest
from mm_runtime.gateway.api.completions import Answer, Event, Usage
from mm_runtime.gateway.api.finish_reason import FinishReason
from mm_runtime.gateway.api.scores import TokenScore
from mm_runtime.gateway.api.segments import Segment


class Transcript:
    """One transcription and the objects that carry it."""

    def __init__(self, request: TranscriptionRequest) -> None:
        self._form, self._task = request.response_format, request.task
        self._text = ""

    def full(self, answers: Sequence[Answer], usage: Usage) -> Event | str:
        """Return the answer in the requested format, which has no place for the reason."""
        text = answers[0].text.strip()
        match self._form:
            case "text":
                return f"{text}\n"
            case "srt":
                return _srt(usage.segments or ())
            case "vtt":
                return "WEBVTT\n\n" + "".join(
                    f"{_spans(one, '.')}\n{escape(_line(one), quote=False)}\n\n"
                    for one in usage.segments or ()
                )
        answer: Event = {
            "text": text,
            "usage": {"type": "duration", "seconds": math.ceil(usage.seconds)},
        }
        if self._form == "json":
            return answer
        language = usage.language if self._task == TRANSCRIBE else "en"
        details: Event = {
            "task": self._task,
            "language": language,
            "duration": round(usage.seconds, 3),
        }
        if usage.segments is not None:
            details["segments"] = [_written(*one) for one in enumerate(usage.segments)]
        return {**answer, **details}

    def opening(self, usage: Usage) -> list[Event]:
        """Return nothing: a stream begins with text."""
        del usage
        return []

    def pieces(
        self, text: str, usage: Usage | None, index: int = 0, scores: Sequence[TokenScore] = ()
    ) -> list[bytes]:
        del usage, index, scores
        self._text += text
        return [encode({"type": "transcript.text.delta", "delta": text})]

    def ended(self, index: int, reason: FinishReason, usage: Usage) -> list[Event]:
        """Return nothing: the last event says it."""
        del index, reason, usage
        return []

    def ending(self, usage: Usage) -> list[Event]:
        del usage
        return [{"type": "transcript.text.done", "text": self._text.strip()}]


def _written(number: int, one: Segment) -> Event:
    text = one.text.encode()
    return {
        "id": number,
        "seek": one.seek,
        "start": round(one.part.start, 3),
        "end": round(one.part.end, 3),
        "text": one.text,
        "tokens": list(one.part.tokens),
        "temperature": one.temperature,
        "avg_logprob": one.mean_log_prob,
        "compression_ratio": len(text) / len(zlib.compress(text)),
        "no_speech_prob": one.no_speech,
    }


def _srt(segments: Sequence[Segment]) -> str:
    """Return subtitles; SRT has no references, so an arrow is shortened as Whisper's writer does.

    In full it would be read as a line of times.
    """
    return "".join(
        f"{number}\n{_spans(one, ',')}\n{_line(one).replace('-->', '->')}\n\n"
        for number, one in enumerate(segments, start=1)
    )


def _line(one: Segment) -> str:
    return " ".join(one.text.split())


def _spans(one: Segment, point: str) -> str:
    return f"{_clock(one.part.start, point)} --> {_clock(one.part.end, point)}"


def _clock(seconds: float, point: str) -> str:
    in_seconds, thousandths = divmod(round(seconds * 1000), 1000)
    minutes, second = divmod(in_seconds, 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours:02}:{minute:02}:{second:02}{point}{thousandths:03}"
