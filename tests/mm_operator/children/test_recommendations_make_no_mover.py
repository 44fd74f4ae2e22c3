"""Mode Recommend moves nothing, through no one: KEDA has no object then."""

from dataclasses import replace

from mm_api.conditions import Reason
from mm_api.v1alpha1 import ScalingStatus
from mm_operator.model import KedaSettings, ScalingView
from support.cases import cases
from support.models import snapshot_of
from support.staged import children, inspected

SETTINGS = replace(snapshot_of().settings, keda=KedaSettings(addresses=("http://own",)))


@cases(
    "mode made",
    {"enforce": ("Enforce", True), "recommend": ("Recommend", False), "off": ("Off", False)},
)
def test_keda_has_its_object_while_it_may_move(mode: str, *, made: bool) -> None:
    """The mode of the spec counts, also where the autoscaler's last word is of the mode before."""
    status = ScalingStatus(desired=1, current=1, reason="Idle", message="")
    view = ScalingView(status, active=True, reason=Reason.FOLLOWING_LOAD, message="", by_keda=True)
    objectives = [{"metric": "TimeToFirstToken", "target": "500ms"}]
    requested = {"engine": "KEDA", "mode": mode, "maxReplicas": 4, "objectives": objectives}
    spec = {"autoscaling": requested}
    found = children(inspected(spec, built=True, settings=SETTINGS, scaling=view))

    assert ("ScaledObject/server" in found) is made
