"""From what pods measured of their work to the costs that are counted with. Pure.

Middles of pods, so that one on a busy node does not decide. A cost that is not above zero is none:
the one before holds; where there never was one, an image's token counts as one of text, and for
any other unit slots are counted. Each is reported.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median_low

from mm_api.sentences import a
from mm_operator.autoscaling import WorkCost

WORK_UNITS = ("request", "image_token", "text_token", "output_token")
"""Values of the label `unit` of `mm_work_seconds`."""


AT_LEAST: Mapping[str, str] = {"image_token": "text_token"}
"""Unit -> one that costs no more. The language model reads a row of an image as it reads a word;
the encoder's part comes on top, and was too small to be distinguished from noise."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What the pods of one model reported."""

    seconds: Mapping[str, float] = field(default_factory=dict)
    """By unit, above zero. A unit that no pod reported is no kind of work of this model."""
    refused: tuple[str, ...] = ()
    """Units of which no pod measured a cost above zero."""

    def __bool__(self) -> bool:
        return bool(self.seconds or self.refused)


def measured(pods: Sequence[Mapping[str, float]]) -> Measured:
    """Return the median of what pods reported; of two pods the quicker one, as noise only adds."""
    reported = {unit: [one[unit] for one in pods if unit in one] for unit in WORK_UNITS}
    costs = {unit: [one for one in values if one > 0] for unit, values in reported.items()}
    return Measured(
        {unit: median_low(values) for unit, values in costs.items() if values},
        tuple(unit for unit in WORK_UNITS if reported[unit] and not costs[unit]),
    )


def believed(new: Measured, before: WorkCost | None) -> tuple[WorkCost | None, str]:
    """Return the costs to count with, and as a sentence why they are not those measured last.

    `new`: what pods reported, at least one of them. `before`: what was counted with until now.
    """
    known = {} if before is None else _by_unit(before)
    kept: dict[str, float] = {}
    guessed: dict[str, float] = {}
    for unit in new.refused:
        if (former := known.get(unit, 0.0)) > 0 and not _is_guess(unit, known):
            kept[unit] = former
        elif (guess := new.seconds.get(AT_LEAST.get(unit, ""), 0.0)) > 0:
            guessed[unit] = guess
    unknown = [unit for unit in new.refused if unit not in kept and unit not in guessed]
    if unknown:
        return None, (
            f"the pods measured no cost above zero for {' and '.join(unknown)}, and none is known "
            "from before: requests in flight are counted instead; restart a pod on a quiet node to "
            "have it measured again"
        )
    seconds = {**new.seconds, **kept, **guessed}
    cost = WorkCost(**{f"{unit}_seconds": seconds.get(unit, 0.0) for unit in WORK_UNITS})
    return cost, "; ".join(_problems(kept, guessed))


def _problems(kept: Mapping[str, float], guessed: Mapping[str, float]) -> Iterator[str]:
    if kept:
        yield (
            f"the pods measured no cost above zero for {' and '.join(kept)}: the one known from "
            "before is kept"
        )
    for unit in guessed:
        yield (
            f"the pods measured no cost above zero for {unit}: it counts as "
            f"{a(AT_LEAST[unit])}, which it costs at least, until a pod measures it"
        )


def _is_guess(unit: str, known: Mapping[str, float]) -> bool:
    return known[unit] == known.get(AT_LEAST.get(unit, ""))


def _by_unit(cost: WorkCost) -> dict[str, float]:
    return {unit: float(getattr(cost, f"{unit}_seconds")) for unit in WORK_UNITS}
