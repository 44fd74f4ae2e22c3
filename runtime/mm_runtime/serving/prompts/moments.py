"""PURE: videos whose frames stand in the prompt apart, each pair or each one behind its time."""

from collections.abc import Sequence
from datetime import timedelta

from mm_api.documents.model_facts import ModelFacts
from mm_api.families import FAMILIES
from mm_api.families.prompt import Moments, PromptStyle
from mm_runtime.serving.prompts.number_words import spelled_out

UNTIMED_RATE = 24
"""Frames a second of a video without times, as transformers' processors read it."""

_MINUTE = 60


def are_written(facts: ModelFacts) -> bool:
    """Return whether the times of frames stand in the prompts of a checkpoint."""
    style = FAMILIES[facts.family].prompt
    return style is not None and style.moments is not None


def reads_times(facts: ModelFacts) -> bool:
    """Return whether it matters to a checkpoint when the frames of a video are."""
    counted = facts.vision is not None and facts.vision.tokens_per_second is not None
    return counted or are_written(facts)


def frame_times(frames: int, seconds: float | None) -> list[float]:
    """Return the seconds before frames that are evenly spread over a video.

    Args:
        frames: of the video.
        seconds: its length; None: it has no times.
    """
    rate = UNTIMED_RATE if not seconds else frames / seconds
    return [at / rate for at in range(frames)]


def moments_of(times: Sequence[float], frames: int) -> list[float]:
    """Return the time of each moment, halfway between its first and last frame.

    Args:
        times: of all frames.
        frames: of a moment; the last one is filled up with its last frame.
    """
    even = [*times, *([times[-1]] * (-len(times) % frames))]
    return [(even[at] + even[at + frames - 1]) / 2 for at in range(0, len(even), frames)]


def is_timed(prompt: str, moments: Moments) -> bool:
    """Return whether a prompt says its video's times already."""
    return moments.each.rpartition("}")[2] in prompt


def timed(
    prompt: str, style: PromptStyle, times: Sequence[float], seconds: float | None = None
) -> str:
    """Return a prompt with the moments of its video in place of that.

    Args:
        prompt: with the family's placeholder of a video.
        style: of a family whose frames stand apart.
        times: seconds before each frame.
        seconds: the video's length; None: it has no times.
    """
    moments = style.moments
    if moments is None:
        return prompt
    length = timedelta(seconds=int(times[-1] if seconds is None else seconds))
    written = moments.before.format(count=spelled_out(len(times)), length=length)
    for one in moments_of(times, moments.frames):
        minutes, rest = int(one // _MINUTE), int(one % _MINUTE)
        written += moments.each.format(seconds=one, minutes=minutes, rest=rest)
    return prompt.replace(style.video, written + moments.after, 1)
