"""The one setter of conditions: stable order, transition times that move on a flip only."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from mm_api.conditions import ConditionType

MESSAGE_LIMIT = 4096
"""Characters: ten log lines fit; 32,768 would be allowed, and many models share one etcd."""

_CUT = " ... (cut)"

Truth = Literal["True", "False", "Unknown"]


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition as it is now, without its history."""

    type: ConditionType
    status: Truth
    reason: str
    message: str = ""


def truth(claim: bool) -> Truth:  # noqa: FBT001  # the value itself, not a switch
    return "True" if claim else "False"


def set_conditions(
    previous: Iterable[Mapping[str, Any]],
    conditions: Iterable[Condition],
    *,
    generation: int,
    now: datetime,
) -> list[dict[str, Any]]:
    """Return the conditions to write, in the order of `ConditionType`.

    Conditions of types that are no longer known disappear.
    """
    before = {condition.get("type"): condition for condition in previous}
    current = {condition.type: condition for condition in conditions}
    return [
        _condition(before.get(kind.value, {}), current[kind], generation, now)
        for kind in ConditionType
        if kind in current
    ]


def timestamp(moment: datetime) -> str:
    """Return a time as Kubernetes writes it; `moment` is in UTC."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _condition(
    before: Mapping[str, Any], condition: Condition, generation: int, now: datetime
) -> dict[str, Any]:
    flipped = before.get("status") != condition.status or "lastTransitionTime" not in before
    return {
        "type": condition.type.value,
        "status": condition.status,
        "reason": str(condition.reason),
        "message": _cut(condition.message),
        "lastTransitionTime": timestamp(now) if flipped else before["lastTransitionTime"],
        "observedGeneration": generation,
    }


def _cut(text: str) -> str:
    return text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - len(_CUT)] + _CUT
