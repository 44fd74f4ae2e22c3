"""The Deployments of a model replace pods as spec.rollout says."""

from collections.abc import Mapping
from typing import Any

from support.cases import cases
from support.staged import children, inspected


def rolling(surge: int, missing: int) -> dict[str, Any]:
    return {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": surge, "maxUnavailable": missing},
    }


@cases(
    "rollout expected",
    {
        "default": ({}, rolling(1, 0)),
        "several-at-a-time": ({"maxSurge": 3}, rolling(3, 0)),
        "no-surge": ({"maxSurge": 0, "maxUnavailable": 2}, rolling(0, 2)),
        "both": ({"maxUnavailable": 1}, rolling(1, 1)),
        "recreate": ({"strategy": "Recreate"}, {"type": "Recreate"}),
    },
)
def test_servers_and_encoders_alike(rollout: Mapping[str, Any], expected: dict[str, Any]) -> None:
    """Encoders in pods of their own hold GPUs, too."""
    spec = {"rollout": rollout, "vision": {"placement": "Disaggregated"}}
    made = children(inspected(spec, built=True))
    for component in ("server", "encoder"):
        assert made[f"Deployment/{component}"]["spec"]["strategy"] == expected
