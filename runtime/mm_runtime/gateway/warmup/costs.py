"""From timed probes to what a unit of work costs, and which costs cannot be believed. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

BASE: Final = "request"
"""Probe that all others are compared with."""


@dataclass(frozen=True, slots=True)
class Timed:
    """What one request of a probe took of a replica, and what was in it."""

    seconds: float
    image_tokens: float
    text_tokens: float
    output_tokens: float


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of a replica by unit of work, and why the cost of some other units is not known."""

    seconds: Mapping[str, float]
    """All above zero. A unit that no probe has more of than another is in neither mapping."""
    refused: Mapping[str, str]
    """One sentence by unit."""


def costs_of(rounds: Mapping[str, Sequence[Timed]]) -> Costs:
    """Return the costs that explain the middle of each probe's times.

    Each probe has its own share of the four costs, so the fit of least absolute deviations goes
    through the medians: of five rounds two may be wrong by any factor, in either direction.

    A cost that is not above zero is refused: what is left of the noise is larger than it. It counts
    as nothing in the others.
    """
    middle = {probe: _middle(timed) for probe, timed in rounds.items()}
    base = middle[BASE]
    known: dict[str, float] = {}
    refused: dict[str, str] = {}

    def keep(unit: str, seconds: float, against: str) -> None:
        if seconds > 0:
            known[unit] = seconds
        else:
            refused[unit] = f"{1000 * seconds:.3g} ms is left for it {against}"

    text, output = middle["text_token"], middle["output_token"]
    if (more := text.text_tokens - base.text_tokens) > 0:
        keep("text_token", (text.seconds - base.seconds) / more, "in longer prompts")
    if (more := output.output_tokens - base.output_tokens) > 0:
        keep("output_token", (output.seconds - base.seconds) / more, "in longer answers")
    word, token = known.get("text_token", 0.0), known.get("output_token", 0.0)
    alone = base.seconds - word * base.text_tokens - token * base.output_tokens
    keep(BASE, alone, "beside its few tokens")
    image = middle.get("image_token")
    if image is not None and image.image_tokens > 0:
        other = word * (image.text_tokens - base.text_tokens)
        other += token * (image.output_tokens - base.output_tokens)
        left = image.seconds - base.seconds - other
        keep("image_token", left / image.image_tokens, "in requests with an image")
    return Costs(known, refused)


def _middle(rounds: Sequence[Timed]) -> Timed:
    return Timed(
        seconds=median(one.seconds for one in rounds),
        image_tokens=median(one.image_tokens for one in rounds),
        text_tokens=median(one.text_tokens for one in rounds),
        output_tokens=median(one.output_tokens for one in rounds),
    )
