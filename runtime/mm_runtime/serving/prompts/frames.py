"""PURE: what stands in a prompt for an image whose features are not one run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Frame:
    """One image in a prompt."""

    text: str
    """A placeholder for each run of features, among tokens of the family's own. It begins and ends
    with tokens that no text around them changes."""

    runs: tuple[int, ...]
    """Rows of the prompt table that stand at each placeholder."""


def framed(prompt: str, placeholder: str, frames: Iterable[Frame]) -> str:
    """Return a prompt with each placeholder of an image replaced by its frame."""
    first, *others = prompt.split(placeholder)
    texts = (frame.text for frame in frames)
    return first + "".join(text + other for text, other in zip(texts, others, strict=True))


def runs_of(frames: Sequence[Frame], rows: Sequence[int]) -> Sequence[int]:
    """Return the rows of each placeholder, where images without frames have one each."""
    return [run for frame in frames for run in frame.runs] if frames else rows
