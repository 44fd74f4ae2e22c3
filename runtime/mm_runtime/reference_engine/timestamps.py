"""Answers with time stamps, as Whisper learnt them: which tokens may come next.

The rules are those of transformers' `WhisperTimeStampLogitsProcessor`, which are OpenAI's; a test
compares answers. Times come in pairs around each piece of text, and never go back.
"""

import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mm_runtime.serving.errors import RequestError


class TimestampGuide:
    """What may come next in one answer."""

    def __init__(self, *, first_time: int, latest_start: int | None, size: int, end: int) -> None:
        """Begin an answer.

        `first_time`: token of the time 0.00; the vocabulary ends with those of later times.
        `latest_start`: times after it at which the answer may begin; None: any. `end`: the end
        token; texts are below it.
        """
        self.together_from: int | None = first_time
        self._latest_start = latest_start
        self._size = size
        self._end = end

    @classmethod
    def read(cls, text: str, *, size: int, end: int) -> "TimestampGuide":
        """Read JSON with `first_time` and `latest_start`; else raise a RequestError."""
        try:
            found = json.loads(text)
            first, latest = found["first_time"], found["latest_start"]
        except (ValueError, TypeError, KeyError):
            raise RequestError(
                "guided_decoding_guide (timestamps): expected JSON with first_time and latest_start"
            ) from None
        known = type(first) is int and 1 <= first < size
        if not known or not (latest is None or (type(latest) is int and latest >= 0)):
            raise RequestError(
                f"guided_decoding_guide (timestamps): expected first_time from 1 to {size - 1} and "
                "latest_start as null or a number of times"
            )
        return cls(first_time=first, latest_start=latest, size=size, end=end)

    def allowed(self, answer: Sequence[int]) -> NDArray[np.bool_]:
        """Return [vocabulary]: which tokens may follow an answer."""
        first = self.together_from
        assert first is not None  # noqa: S101  # set when the answer began
        allowed = np.ones(self._size, np.bool_)
        allowed[first - 1] = False  # <|notimestamps|>, which stands before the times
        if not answer:
            allowed[:first] = False
            if self._latest_start is not None:
                allowed[first + self._latest_start + 1 :] = False
            return allowed
        was_time = answer[-1] >= first
        was_pair = all(token >= first for token in answer[-2:-1])
        if was_time and was_pair:
            allowed[first:] = False
        elif was_time:
            allowed[: self._end] = False
        times = [token for token in answer if token >= first]
        if times:
            # A text takes some time; the next one may begin where the last ended.
            allowed[first : times[-1] + (0 if was_time and not was_pair else 1)] = False
        return allowed
