"""The lines of the log about a model's life: builds, rollouts, scale steps, refusals. Pure.

Events report each change to the owner of a model and go after an hour. These lines are for who runs
the operator: few, and each the begin or the end of something.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mm_api.conditions import ConditionType, Reason
from mm_operator.status.events import is_failure, moves

TEXT_LIMIT = 300
"""Characters: a line stays a line; the condition holds the rest."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line: what happened, as a word to search for, and as a sentence."""

    event: str
    text: str


def story(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Line, ...]:
    """Return what happened between two statuses of a model, in order."""
    lines = (
        *_refusals(before, after),
        *_build(before, after),
        *_rollout(before, after),
        *(Line("Scaled", text) for _, text in moves(before, after)),
    )
    return tuple(Line(line.event, _short(line.text)) for line in lines)


def _refusals(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Line]:
    """Yield what is wrong with a spec or its source, each time that it is something else."""
    planned = _condition(after, ConditionType.PLANNED)
    refused = planned.get("status") == "False" and is_failure(
        ConditionType.PLANNED, planned["reason"]
    )
    if refused and _said(planned) != _said(_condition(before, ConditionType.PLANNED)):
        yield Line("Refused", f"refused: {planned['reason']}: {planned['message']}")
    degraded = _condition(after, ConditionType.DEGRADED)
    taken = degraded.get("status") == "True" and degraded["reason"] == Reason.NAME_TAKEN
    if taken and _said(degraded) != _said(_condition(before, ConditionType.DEGRADED)):
        yield Line("Refused", f"refused: {degraded['reason']}: {degraded['message']}")


def _build(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Line]:
    old, new = before.get("build", {}), after.get("build", {})
    own = new.get("phase") != "Waiting" and not new.get("reusedFrom")
    attempt = (new.get("fingerprint"), new.get("attempts"))
    if own and new.get("attempts") and attempt != (old.get("fingerprint"), old.get("attempts")):
        yield Line("BuildStarted", f"build started: Job {new['jobName']}, attempt {attempt[1]}")
    was, now = (_condition(one, ConditionType.ENGINE_BUILT) for one in (before, after))
    if now.get("status") == "True":
        same = old.get("fingerprint") == new.get("fingerprint")
        if was.get("status") != "True" or not same:
            yield _built(new)
    elif now and is_failure(ConditionType.ENGINE_BUILT, now["reason"]) and _said(was) != _said(now):
        yield Line("BuildFailed", f"build failed: {now['reason']}: {now['message']}")


def _built(build: Mapping[str, Any]) -> Line:
    if origin := build.get("reusedFrom"):
        whose = "the store" if origin == "store" else f"model {origin}"
        return Line("EngineReused", f"nothing to build: the engine is that of {whose}")
    seconds = sum(build.get("stepSeconds", {}).values())
    return Line("BuildSucceeded", f"build succeeded after {seconds:.1f} s of work")


def _rollout(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Line]:
    was, now = (_condition(one, ConditionType.ROLLING_OUT) for one in (before, after))
    moved, moves_now = was.get("status") == "True", now.get("status") == "True"
    if moves_now and not moved:
        yield Line("RolloutStarted", f"rollout started: {now['message']}")
    elif moved and not moves_now and now["reason"] == Reason.ROLLOUT_COMPLETE:
        yield Line("RolloutFinished", f"rollout finished: replicas {after['replicas']}")


def _condition(status: Mapping[str, Any], kind: ConditionType) -> Mapping[str, Any]:
    return next((one for one in status.get("conditions", ()) if one["type"] == kind), {})


def _said(condition: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(condition.get(name) for name in ("status", "reason", "message"))


def _short(text: str) -> str:
    first = text.split("\n", 1)[0]
    return first if len(first) <= TEXT_LIMIT else f"{first[: TEXT_LIMIT - 3]}..."
