"""PURE: an answer with time stamps -> its pieces, and where the next window of its audio begins.

The rules are those of transformers' `generate` for audio of any length, which are OpenAI's; a test
compares answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

FRAMES_A_SECOND = 100
FRAMES_A_TIME = 2
"""Frames of the spectrogram from one time stamp to the next: the encoder halves them."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some tokens between two times, in seconds from the audio's start; times are among them."""

    start: float
    end: float
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """A part as clients see it; `seek`: frame at which its window begins. None: not known."""

    part: Part
    text: str
    seek: int
    temperature: float
    mean_log_prob: float | None
    no_speech: float | None = None


def parts_of(
    answer: Sequence[int], *, first_time: int, seek: int, frames: int
) -> tuple[list[Part], int]:
    """Return the parts of the answer to one window, and the frames that it is done with.

    `first_time`: token of the time 0.00. `frames`: of the window that hold audio.
    """
    offset = seek / FRAMES_A_SECOND

    def at(token: int) -> float:
        return offset + (token - first_time) * FRAMES_A_TIME / FRAMES_A_SECOND

    is_time = [token >= first_time for token in answer]
    pairs = [place for place in range(1, len(answer)) if is_time[place - 1] and is_time[place]]
    # A time after a text at the very end: nothing was said after it.
    complete = is_time[-2:] == [False, True]
    if not pairs:
        last = next((one for one in reversed(answer) if one >= first_time), first_time)
        times = frames // FRAMES_A_TIME if last == first_time else last - first_time
        end = at(first_time + times)
        return [Part(offset, end, tuple(answer))], frames
    ends = [*pairs, len(answer)] if complete else [*pairs[:-1], pairs[-1] + 1]
    parts, start = [], 0
    for end in ends:
        tokens = tuple(answer[start:end])
        closing = tokens[-1] if complete or end != ends[-1] else tokens[-2]
        parts.append(Part(at(tokens[0]), at(closing), tokens))
        start = end
    if complete:
        return parts, frames
    # What comes after the last pair is in the midst of a sentence: the next window begins there.
    done = (answer[pairs[-1] - 1] - first_time) * FRAMES_A_TIME
    return parts, done if 0 < done <= frames else frames
