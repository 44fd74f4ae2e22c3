"""The Deployments of a model replace pods as spec.rollout says."""

from collections.abc import Mapping
from typing import Any

import pytest

from support.staged import children, inspected


def rolling(surge: int, missing: int) -> dict[str, Any]:
    """Return a Deployment's strategy."""
    return {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": surge, "maxUnavailable": missing},
    }


@pytest.mark.parametrize(
    ("rollout", "expected"),
    [
        pytest.param({}, rolling(1, 0), id="default"),
        pytest.param({"maxSurge": 3}, rolling(3, 0), id="several-at-a-time"),
        pytest.param({"maxSurge": 0, "maxUnavailable": 2}, rolling(0, 2), id="no-surge"),
        pytest.param({"maxUnavailable": 1}, rolling(1, 1), id="both"),
        pytest.param({"strategy": "Recreate"}, {"type": "Recreate"}, id="recreate"),
    ],
)
def test_servers_and_encoders_alike(rollout: Mapping[str, Any], expected: dict[str, Any]) -> None:
    """Encoders in pods of their own hold GPUs, too."""
    spec = {"rollout": rollout, "vision": {"placement": "Disaggregated"}}
    made = children(inspected(spec, built=True))
    for component in ("server", "encoder"):
        assert made[f"Deployment/{component}"]["spec"]["strategy"] == expected
