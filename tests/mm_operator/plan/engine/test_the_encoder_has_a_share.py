"""The encoder's share of a GPU that it has beside a TensorRT engine: as written, else 25 %."""

from typing import Any

from support.cases import cases
from support.model_configs import planned


@cases(
    "vision mode percent reasons",
    {
        "absent": ({}, "MPS", 25, ["the smallest that was measured"]),
        "written": ({"threadPercentage": 60}, "MPS", 60, ["as written"]),
        "time-slices": ({"sharing": "TimeSlicing"}, "TimeSlicing", 25, []),
    },
)
def test_a_written_share_is_kept(
    vision: dict[str, Any], mode: str, percent: int, reasons: list[str]
) -> None:
    plan = planned("llava", {}, vision=vision)
    sharing = plan.serving_plan.sharing
    said = [one.reason for one in plan.reasons if one.field == "vision.threadPercentage"]

    assert (sharing.mode, sharing.thread_percentage, said) == (mode, percent, reasons)
