"""The Events of a transition: one for each condition whose status or reason changed."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from mm_api.conditions import ConditionType, Reason

MESSAGE_LIMIT = 1000
"""Characters; the API server refuses notes above 1,024 bytes."""

SCALED_UP = "ScaledUp"
SCALED_DOWN = "ScaledDown"

_QUIET = frozenset({Reason.AS_EXPECTED, Reason.AUTOSCALING_OFF, Reason.WAITING_FOR_PLAN})
"""Reasons without news."""

_WAITING = frozenset(
    {
        Reason.INSPECTING,
        Reason.INSPECT_PENDING,
        Reason.WAITING_FOR_ENGINE,
        Reason.WAITING_FOR_TURN,
        Reason.BUILDING,
        Reason.BUILD_PENDING,
        Reason.WAITING_FOR_BUILD,
        Reason.PODS_STARTING,
        Reason.NO_REPLICAS,
    }
)
"""Reasons of a False condition that are part of every ordinary life."""


@dataclass(frozen=True, slots=True)
class Event:
    """An Event to emit about the model."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


def transitions(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Event, ...]:
    """Return the Events between two statuses, in the order of conditions, each text once."""
    old = {condition["type"]: condition for condition in before.get("conditions", ())}
    events = (
        _event(condition)
        for condition in after.get("conditions", ())
        if _changed(old.get(condition["type"], {}), condition)
    )
    reported = _distinct(event for event in events if event)
    steps = _steps(before.get("build", {}), after.get("build", {}))
    scaled = (Event("Normal", reason, _cut(text)) for reason, text in _scale_steps(before, after))
    return (*steps, *reported, *scaled)


def finished_steps(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, float]:
    """Return the build steps that finished between two `status.build`, with their seconds.

    None of an engine that another model built: its own Events and metrics reported them.
    """
    if after.get("reusedFrom") or after.get("phase") == "Waiting":
        return {}
    same = before.get("fingerprint") == after.get("fingerprint")
    known = before.get("stepSeconds", {}) if same else {}
    return {
        step: seconds
        for step, seconds in after.get("stepSeconds", {}).items()
        if known.get(step) != seconds
    }


def _steps(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Event, ...]:
    return tuple(
        Event("Normal", "BuildStepFinished", f"EngineBuilt: step {step} took {seconds:.1f} s")
        for step, seconds in finished_steps(before, after).items()
    )


def _scale_steps(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (reason, sentence) for each change of the replicas that is new, oldest first."""
    statuses = (before, after)
    encoders = [one.get("encoders") or {} for one in statuses]
    for what, of in (("replicas", statuses), ("encoders", encoders)):
        old, new = ((one.get("scaling") or {}).get("history") or [] for one in of)
        for change in reversed([one for one in new if one not in old]):
            first, last = change["fromReplicas"], change["toReplicas"]
            reason = SCALED_UP if last > first else SCALED_DOWN
            yield reason, f"{what} {first} -> {last}: {change['reason']}"


def _cut(text: str) -> str:
    return text.encode()[:MESSAGE_LIMIT].decode(errors="ignore")


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    return (old.get("status"), old.get("reason")) != (new["status"], new["reason"])


def _event(condition: Mapping[str, Any]) -> Event | None:
    kind, reason = condition["type"], condition["reason"]
    holds = condition["status"] == "True"
    # While it is False, Ready repeats a condition; Available only ever repeats Ready.
    repeats = kind == ConditionType.AVAILABLE or (kind == ConditionType.READY and not holds)
    if reason in _QUIET or repeats:
        return None
    bad = holds if kind == ConditionType.DEGRADED else not holds and _is_failure(kind, reason)
    return Event("Warning" if bad else "Normal", reason, _cut(f"{kind}: {condition['message']}"))


def _is_failure(kind: str, reason: str) -> bool:
    kinds = {ConditionType.PLANNED, ConditionType.ENGINE_BUILT}
    return kind in kinds and reason not in _WAITING | _QUIET


def _distinct(events: Iterable[Event]) -> tuple[Event, ...]:
    """Return the events less those whose reason was reported with the same text already.

    Degraded repeats the condition that it comes from and makes its Event a warning.
    """
    reported: dict[tuple[str, str], Event] = {}
    for event in events:
        key = (event.reason, event.message.split(": ", 1)[1])
        first = reported.setdefault(key, event)
        if event.type == "Warning":
            reported[key] = replace(first, type="Warning")
    return tuple(reported.values())
