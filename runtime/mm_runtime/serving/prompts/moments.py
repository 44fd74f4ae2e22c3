"""PURE: videos whose frames stand in the prompt apart, each pair or each one behind its time."""

from collections.abc import Sequence
from dataclasses import dataclass

from mm_api.documents.model_facts import ModelFacts
from mm_api.families import FAMILIES
from mm_api.families.prompt import Moments, PromptStyle

UNTIMED_RATE = 24
"""Frames a second of a video without times, as transformers' processors read it."""


@dataclass(frozen=True)
class Clip:
    """When the frames of one video are."""

    times: Sequence[float]
    """Seconds before each frame."""

    seconds: float | None = None
    """Length of the video; None: it has no times."""


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

    `seconds`: its length; None: it has no times.
    """
    rate = UNTIMED_RATE if not seconds else frames / seconds
    return [at / rate for at in range(frames)]


def moments_each(facts: ModelFacts, frames: Sequence[int]) -> list[int]:
    """Return the places in a prompt of each video of so many frames; one where they are one run."""
    style = FAMILIES[facts.family].prompt
    if style is None or style.moments is None:
        return [1] * len(frames)
    return [-(-count // style.moments.frames) for count in frames]


def moments_of(times: Sequence[float], frames: int) -> list[float]:
    """Return the time of each moment, halfway between its first and last frame.

    `frames`: of a moment; the last one is filled up with its last frame.
    """
    even = [*times, *([times[-1]] * (-len(times) % frames))]
    return [(even[at] + even[at + frames - 1]) / 2 for at in range(0, len(even), frames)]


def is_timed(prompt: str, moments: Moments) -> bool:
    """Return whether a prompt says the times of its videos already."""
    return moments.each.rpartition("}")[2] in prompt


def timed(prompt: str, style: PromptStyle, clips: Sequence[Clip]) -> str:
    """Return a prompt with the moments of its videos in place of each.

    Args:
        prompt: with the family's placeholders of videos.
        style: of a family whose frames stand apart.
        clips: the videos, in their order; what they have no placeholder for is left out.
    """
    if style.moments is None:
        return prompt
    first, *others = prompt.split(style.video, len(clips))
    written = (_written(style.moments, clip) for clip in clips)
    return first + "".join(one + other for one, other in zip(written, others, strict=False))


def _written(moments: Moments, clip: Clip) -> str:
    found = moments_of(clip.times, moments.frames)
    return "".join(moments.each.format(seconds=one) for one in found)
