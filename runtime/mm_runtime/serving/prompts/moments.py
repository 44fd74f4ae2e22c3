"""PURE: videos whose frames stand in the prompt apart, each pair behind its time."""

from collections.abc import Sequence

from mm_api.documents.model_facts import ModelFacts
from mm_api.families import FAMILIES
from mm_api.families.prompt import PromptStyle

FRAMES = 2
"""Frames that become one patch in time; an image counts twice."""

UNTIMED_RATE = 24
"""Frames a second of a video without times, as transformers' processor reads it."""


def are_written(facts: ModelFacts) -> bool:
    """Return whether the times of frames stand in the prompts of a checkpoint."""
    style = FAMILIES[facts.family].prompt
    return style is not None and bool(style.moment)


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


def moments(times: Sequence[float]) -> list[float]:
    """Return the time of each pair of frames, halfway between both; an odd last one is twice."""
    even = [*times, *times[-1:]] if len(times) % FRAMES else times
    return [(even[at] + even[at + FRAMES - 1]) / FRAMES for at in range(0, len(even), FRAMES)]


def is_timed(prompt: str, style: PromptStyle) -> bool:
    """Return whether a prompt says its video's times already."""
    return style.moment.partition("}")[2] in prompt


def timed(prompt: str, style: PromptStyle, times: Sequence[float]) -> str:
    """Return a prompt with the pairs of frames, and their times, in place of the one video.

    Args:
        prompt: with the family's placeholder of a video.
        style: of a family whose frames stand apart.
        times: of each frame.
    """
    written = "".join(style.moment.format(seconds=one) for one in moments(times))
    return prompt.replace(style.video, written, 1)
