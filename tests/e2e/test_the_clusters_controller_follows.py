"""Engine HPA on the full cluster: what the chart installs is enough, with certificates checked."""

import json
from typing import Any

import pytest

from mm_devcluster.demo import monitoring, settings
from support.clusters import read
from support.eventually import eventually
from support.installed import Installed, Space, model_space
from support.tiny_llava import CHECKPOINT

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(900)]

MODEL = "followed"
APISERVICE = "v1beta1.external.metrics.k8s.io"
MOVED_SECONDS = 150.0
"""A tick of the operator, then a look of the controller, 15 s each; the machine is shared."""


def registered(installed: Installed) -> dict[str, Any]:
    """Return the APIService that the chart made."""
    return read(installed.cluster, "apiservice", APISERVICE)


def available(installed: Installed) -> str:
    """Return whether the API server reaches and trusts the operator."""
    conditions = registered(installed)["status"].get("conditions", [])
    return next((one["status"] for one in conditions if one["type"] == "Available"), "")


def replicas(space: Space) -> int:
    """Return spec.replicas."""
    return int(space.read(MODEL)["spec"].get("replicas", 1))


def wish(space: Space, number: int, **more: Any) -> None:
    """Let the model's own query request a number of replicas."""
    patch = {"spec": {"autoscaling": {"customQuery": f"vector({number})", **more}}}
    space.kubectl("patch", "mmm", MODEL, "--type=merge", "-p", json.dumps(patch))


def test_replicas_move_through_the_aggregation_layer(installed: Installed) -> None:
    """Up and down by the cluster's own controller; the operator's certificate is verified."""
    eventually(lambda: available(installed) == "True", showing=lambda: registered(installed))
    spec = registered(installed)["spec"]
    assert (bool(spec.get("caBundle")), spec.get("insecureSkipTLSVerify", False)) == (True, False)
    assert spec["service"]["namespace"] == settings.SYSTEM_NAMESPACE
    with (
        model_space(installed, "aggregated") as space,
        monitoring.running(installed.target) as prometheus,
    ):
        space.upload(CHECKPOINT, "tiny")
        space.apply(space.model(MODEL, "tiny"))
        space.wait_ready(MODEL)
        down = {"stabilizationWindowSeconds": 5}
        wish(
            space,
            2,
            engine="HPA",
            maxReplicas=2,
            behavior={"scaleDown": down},
            prometheus={"addresses": [prometheus]},
        )

        eventually(lambda: replicas(space) == 2, seconds=MOVED_SECONDS, showing=lambda: hpa(space))
        space.wait_ready(MODEL)
        wish(space, 1)

        eventually(
            lambda: replicas(space) == 1, seconds=2 * MOVED_SECONDS, showing=lambda: hpa(space)
        )
        reported = {one["type"]: one["reason"] for one in hpa(space)["status"]["conditions"]}
        assert reported["ScalingActive"] == "ValidMetricFound", reported
        # The operator sees at its next tick what another controller has moved.
        eventually(lambda: moves(space) == [1, 2], showing=lambda: moves(space))


def moves(space: Space) -> list[int]:
    """Return the numbers in the history, the newest first."""
    history = space.read(MODEL)["status"]["scaling"]["history"]
    return [one["toReplicas"] for one in history]


def hpa(space: Space) -> dict[str, Any]:
    """Return the HorizontalPodAutoscaler."""
    return space.get("hpa", MODEL)
