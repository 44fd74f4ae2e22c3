"""PURE: the next state of a canary, from its spec, its recorded state and what was observed.

The recorded state (`status.rollout`) comes first and acts afterwards: pods of a new revision go, or
replace the stable ones, only once the status says so. So an operator that restarts at any moment
continues, and never tries a revision again that it had sent back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil, exp, log
from typing import Literal

from mm_api.documents.router_state import CanaryEvidence, Pairs
from mm_api.v1alpha1 import (
    CanaryAnswers,
    CanarySpec,
    CanaryStep,
    ComparisonStatus,
    RolloutPhase,
    RolloutStatus,
    duration,
)
from mm_operator.model import CanaryDecision

Verdict = Literal["Open", "Passed", "Worse"]

FALSE_ALARM = 0.01
"""Chance that a version that is not worse is called worse, ever, by one comparison of one step."""

FALSE_PASS = 0.05
"""Chance that one that is worse by the margin ever passes one."""

LATENCY_MARGIN = 0.5
"""Worse in three of four pairs: half of them is what equal versions have at the tolerated ratio."""

_BETS = (0.25, 0.5, 0.9)
"""Small ones win on small differences, large ones on large ones: their mean is a test as well."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison of a step; `margin`: the mean of pairs that must not pass, above 0.

    Two tests that may be looked at after every pair (betting martingales: Waudby-Smith and Ramdas,
    Estimating means of bounded random variables by betting, 2024). A pair is 1 where the new
    version was worse, -1 where the stable one was, else 0; its mean is how much worse it is.

    `tolerated`: the mean up to which a version is not worse, below the margin; where it is above 0
    no pair is -1.
    """

    name: str
    pairs: Pairs
    margin: float
    tolerated: float = 0.0

    @property
    def verdict(self) -> Verdict:
        if self._grown(sign=1, centre=self.tolerated) >= 1 / FALSE_ALARM:
            return "Worse"
        return "Passed" if self._grown(sign=-1, centre=self.margin) >= 1 / FALSE_PASS else "Open"

    def _grown(self, *, sign: int, centre: float) -> float:
        """Return what 1 becomes that was bet on means above (or below) the centre, pair by pair."""
        counts = ((1, self.pairs.worse), (-1, self.pairs.better), (0, self.pairs.equal))
        logs = [
            sum(count * log(1 + sign * bet * (value - centre)) for value, count in counts if count)
            for bet in _BETS
        ]
        # Far above what decides, and far from what a float holds.
        return sum(exp(min(one, 50.0)) for one in logs) / len(_BETS)


@dataclass(frozen=True, slots=True)
class CanarySeen:
    """What there is to know about the pods of a new revision.

    `failed`: reason and sentence of what another try does not change. `waits`: why pods are not
    ready, as far as known. `command`: of `mmctl rollout`, unread. `modalities`: that the model
    reads.
    """

    revision: str
    replicas: int
    available: int
    now: datetime
    evidence: Sequence[CanaryEvidence] = ()
    failed: tuple[str, str] | None = None
    waits: str = ""
    command: str = ""
    modalities: Sequence[str] = ("text", "image")


def decide_canary(
    spec: CanarySpec, deadline: str, before: RolloutStatus | None, seen: CanarySeen
) -> CanaryDecision:
    """Return the next state while the stable pods are of another revision."""
    known = before if before is not None and before.revision == seen.revision else None
    if known is None:
        status = _state("Progressing", seen, step=1, weight=0)
    else:
        status = _commanded(known, seen) or (
            _next(spec, deadline, known, seen) if known.phase == "Progressing" else known
        )
    # What was promoted after it had been sent back has no weight, and no pods beside the others.
    recorded = (known.phase, known.weight > 0) if known else ("", False)
    stays = recorded[0] == "Progressing" or recorded == ("Promoting", True)
    pods = 0
    if status.phase == "Progressing" or stays:
        pods = pods_of(_step(spec, status.step), seen.replicas)
    return CanaryDecision(
        status=status,
        pods=pods,
        look_in=_look_in(spec, deadline, known, status, seen),
        replaces=known is not None and known.phase in {"Promoting", "Promoted"},
    )


def finish_canary(
    spec: CanarySpec, before: RolloutStatus | None, seen: CanarySeen, *, complete: bool
) -> CanaryDecision | None:
    """Return the state while the pods of the wanted revision replace those of the stable one.

    None: they did not come by a canary.
    """
    if before is None or before.revision != seen.revision:
        return None
    if before.phase == "Promoted":
        return CanaryDecision(before)
    phase: RolloutPhase = "Promoted" if complete else "Promoting"
    status = before
    if phase != before.phase:
        weight = 0 if complete else before.weight
        status = _state(phase, seen, step=before.step, weight=weight)
    pods = pods_of(_step(spec, before.step), seen.replicas) if before.weight else 0
    return CanaryDecision(status, pods, look_in=0.0 if status != before else None)


def pods_of(step: CanaryStep, replicas: int) -> int:
    return max(1, ceil(replicas * step.weight / 100))


def comparisons(spec: CanarySpec, known: RolloutStatus, seen: CanarySeen) -> list[Comparison]:
    """Return what is compared; evidence of another revision, step or weight does not count."""
    stage = (known.revision, known.step, known.weight)
    found = [one for one in seen.evidence if (one.revision, one.step, one.weight) == stage]
    analysis, none = spec.analysis, Pairs()
    errors = sum((one.errors for one in found), none)
    compared = [Comparison("Errors", errors, analysis.error_increase_percent / 100)]
    if analysis.first_text_increase_percent is not None:
        pairs = sum((one.first_text for one in found), none)
        compared.append(Comparison("FirstText", pairs, LATENCY_MARGIN))
    if analysis.inter_token_increase_percent is not None:
        pairs = sum((one.inter_token for one in found), none)
        compared.append(Comparison("InterToken", pairs, LATENCY_MARGIN))
    if analysis.answers is not None:
        tolerated = 1 - analysis.answers.agreement_percent / 100
        for modality in replayed(analysis.answers, seen.modalities):
            of_it = (getattr(one, f"{modality}_answers") or none for one in found)
            name = f"{modality.capitalize()}Answers"
            compared.append(Comparison(name, sum(of_it, none), 2 * tolerated, tolerated))
    return compared


def replayed(answers: CanaryAnswers, modalities: Sequence[str]) -> list[str]:
    """Return what is to be compared of a model that reads so many modalities."""
    return [one for one in answers.modalities if one in modalities]


def _commanded(known: RolloutStatus, seen: CanarySeen) -> RolloutStatus | None:
    verb, _, revision = seen.command.partition(" ")
    if revision != known.revision:
        return None
    if verb == "promote" and known.phase in {"Progressing", "RolledBack"}:
        state = _state("Promoting", seen, step=known.step, weight=known.weight)
        return state.model_copy(update={"message": "promoted by a person"})
    if verb == "abort" and known.phase == "Progressing":
        return _back(known, seen, "Aborted", "sent back by a person")
    return None


def _next(spec: CanarySpec, deadline: str, known: RolloutStatus, seen: CanarySeen) -> RolloutStatus:
    if seen.failed:
        return _back(known, seen, *seen.failed)
    step = _step(spec, known.step)
    late = _seconds(known, seen) >= _deadline(step, deadline, known)
    wanted = pods_of(step, seen.replicas)
    if seen.available < wanted:
        text = f"{seen.available} of {wanted} pods of the new revision are ready"
        text = f"{text}: {seen.waits}" if seen.waits else text
        if late:
            return _back(known, seen, "ProgressDeadlineExceeded", text)
        return known.model_copy(update={"reason": "PodsStarting", "message": text})
    if known.weight != step.weight:
        return _state("Progressing", seen, step=known.step, weight=step.weight)
    return _judged(spec, known, seen, late=late)


def _judged(
    spec: CanarySpec, known: RolloutStatus, seen: CanarySeen, *, late: bool
) -> RolloutStatus:
    compared = comparisons(spec, known, seen)
    known = known.model_copy(update={"comparisons": [_shown(one) for one in compared]})
    for one in compared:
        if one.verdict == "Worse":
            return _back(known, seen, _WORSE[one.name][0], _worse(one))
    still_open = [_OPEN[one.name] for one in compared if one.verdict == "Open"]
    step = _step(spec, known.step)
    if still_open:
        text = f"too few requests of both revisions to compare {', '.join(still_open)}"
        if late:
            return _back(known, seen, "ProgressDeadlineExceeded", text)
        return known.model_copy(update={"reason": "Analyzing", "message": text})
    if _seconds(known, seen) < _pause(step):
        return known.model_copy(
            update={"reason": "Paused", "message": f"not worse; the pause of {step.pause} lasts"}
        )
    if known.step < len(spec.steps):
        return _state("Progressing", seen, step=known.step + 1, weight=known.weight)
    return _state("Promoting", seen, step=known.step, weight=known.weight)


_WORSE = {
    "Errors": ("ErrorsIncreased", "answered with an error"),
    "FirstText": ("FirstTextSlower", "began its answer later than is tolerated"),
    "InterToken": ("InterTokenSlower", "wrote its answer more slowly than is tolerated"),
    "TextAnswers": ("AnswersDiffer", "without images"),
    "ImageAnswers": ("AnswersDiffer", "with images"),
}
_OPEN = {
    "Errors": "errors",
    "FirstText": "the first text",
    "InterToken": "times between events",
    "TextAnswers": "answers without images",
    "ImageAnswers": "answers with images",
}


def _worse(one: Comparison) -> str:
    pairs, what = one.pairs, _WORSE[one.name][1]
    count = pairs.worse + pairs.better + pairs.equal
    if _WORSE[one.name][0] == "AnswersDiffer":
        return f"answers differ: {pairs.worse} of {count} {what}"
    better = f", and the stable one alone in {pairs.better}" if one.name == "Errors" else ""
    return f"in {pairs.worse} of {count} pairs of requests the new revision {what}{better}"


def _shown(one: Comparison) -> ComparisonStatus:
    return ComparisonStatus(name=one.name, **one.pairs.model_dump(), verdict=one.verdict)


def _back(known: RolloutStatus, seen: CanarySeen, reason: str, message: str) -> RolloutStatus:
    status = _state(
        "RolledBack", seen, step=known.step, weight=0, reason=reason, message=message[:1000]
    )
    return status.model_copy(update={"comparisons": known.comparisons})


def _state(
    phase: RolloutPhase,
    seen: CanarySeen,
    *,
    step: int,
    weight: int,
    reason: str = "",
    message: str = "",
) -> RolloutStatus:
    return RolloutStatus(
        phase=phase,
        revision=seen.revision,
        step=step,
        weight=weight,
        since=f"{seen.now:%Y-%m-%dT%H:%M:%SZ}",
        reason=reason,
        message=message,
    )


def _step(spec: CanarySpec, number: int) -> CanaryStep:
    # The last one where the spec has fewer by now.
    return spec.steps[min(number, len(spec.steps)) - 1]


def _seconds(known: RolloutStatus, seen: CanarySeen) -> float:
    return (seen.now - datetime.fromisoformat(known.since)).total_seconds()


def _pause(step: CanaryStep) -> float:
    return duration.parse(step.pause).total_seconds() if step.pause else 0.0


def _deadline(step: CanaryStep, deadline: str, known: RolloutStatus) -> float:
    # To ready pods, or to the end of its step.
    seconds = duration.parse(deadline).total_seconds()
    return seconds + (_pause(step) if known.weight == step.weight else 0.0)


def _look_in(
    spec: CanarySpec,
    deadline: str,
    known: RolloutStatus | None,
    status: RolloutStatus,
    seen: CanarySeen,
) -> float | None:
    if known is None or (status.phase, status.since) != (known.phase, known.since):
        return 0.0  # what follows from the new state is done once it is recorded
    if status.phase != "Progressing":
        return None
    step, passed = _step(spec, known.step), _seconds(known, seen)
    ends = (_pause(step), _deadline(step, deadline, known))
    return min((max(end - passed, 0.0) + 0.1 for end in ends if end > passed), default=None)
