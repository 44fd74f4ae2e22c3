"""What KEDA is given: where the recommendation is, with which Secrets, and what an error means."""

from dataclasses import replace
from typing import Any

import yaml

from mm_api.conditions import Reason
from mm_api.v1alpha1 import ScalingStatus
from mm_operator.children.all import build
from mm_operator.model import KedaSettings, Ref, ScalingView, Snapshot
from mm_operator.plan import decide
from support.cases import cases
from support.golden import Golden
from support.models import snapshot_of
from support.staged import children, inspected

PAIR = ("https://a:9090/", "https://b:9090")
SETTINGS = replace(snapshot_of().settings, keda=KedaSettings())
FALLBACK = {"failures": 2, "replicas": 3}


def view(*, by_keda: bool = True) -> ScalingView:
    status = ScalingStatus(desired=1, current=1, reason="Idle", message="")
    reason = Reason.FOLLOWING_LOAD
    return ScalingView(status, active=True, reason=reason, message="", by_keda=by_keda)


def scaled(autoscaling: dict[str, Any]) -> dict[str, Any]:
    objectives = [{"metric": "TimeToFirstToken", "target": "500ms"}]
    keda = {"engine": "KEDA", "maxReplicas": 4, "objectives": objectives}
    return {"autoscaling": {**keda, **autoscaling}}


def staged(autoscaling: dict[str, Any], **settings: Any) -> dict[str, dict[str, Any]]:
    keda = replace(SETTINGS, keda=KedaSettings(**settings))
    return children(inspected(scaled(autoscaling), built=True, settings=keda, scaling=view()))


@cases(
    "name spec own",
    {
        "a-pair": (
            "keda-serving",
            {"minReplicas": 2, "maxReplicas": 12, "fallback": FALLBACK},
            {"addresses": PAIR, "match_labels": (("cluster", 'the "first"'),)},
        ),
        "with-credentials": (
            "keda-own-serving",
            {"minReplicas": 2},
            {
                "addresses": ("http://own",),
                "match_labels": (("cluster", "a"),),
                "authentication": "prometheus",
                "auth_modes": "bearer",
            },
        ),
    },
)
def test_the_objects_are_as_recorded(
    name: str, spec: dict[str, Any], own: dict[str, Any], golden: Golden
) -> None:
    """An empty answer is an error, which keeps replicas."""
    made = staged(spec, **own)
    key = "ScaledObject/server"
    text = yaml.safe_dump(made[key], sort_keys=True, width=100)

    golden.check(f"{name}.yaml", f"# {key}\n{text}")


@cases("most tolerance", {"ten": (10, None), "eleven": (11, "0")})
def test_one_replica_more_counts_above_ten(most: int, tolerance: str | None) -> None:
    """From ten replicas on one more is within the usual tolerance of the cluster's controller."""
    found = staged({"maxReplicas": most})
    config = found["ScaledObject/server"]["spec"]["advanced"]["horizontalPodAutoscalerConfig"]

    assert [rules.get("tolerance") for rules in config["behavior"].values()] == [tolerance] * 2


@cases(
    "by_keda there expected",
    {
        "said": (True, False, True),
        "contested": (False, True, False),
        "new-leader-keeps": (None, True, True),
        "new-leader-makes-none": (None, False, False),
    },
)
def test_it_exists_while_the_autoscaler_says_so(
    *, by_keda: bool | None, there: bool, expected: bool
) -> None:
    """Made and taken away by what the autoscaler said; silence changes nothing."""
    spec = scaled({})
    said = None if by_keda is None else view(by_keda=by_keda)
    snapshot, _ = inspected(spec, built=True, settings=SETTINGS, scaling=said)
    if there:
        refs = snapshot.observed.refs | {Ref("ScaledObject", "llava")}
        snapshot = replace(snapshot, observed=replace(snapshot.observed, refs=refs))

    assert expected == ("ScaledObject" in kinds_of(snapshot))


@cases(
    "keda autoscaling made",
    {
        "both": (True, True, True),
        "no-keda-in-the-cluster": (False, True, False),
        "no-autoscaling": (True, False, False),
    },
)
def test_kinds_of_keda_are_made_where_it_is(*, keda: bool, autoscaling: bool, made: bool) -> None:
    """An API server without KEDA's definitions would refuse them, whatever the autoscaler said."""
    settings = SETTINGS if keda else replace(SETTINGS, keda=None)
    spec = scaled({}) if autoscaling else {}
    stage = inspected(spec, built=True, settings=settings, scaling=view())
    assert ("ScaledObject" in kinds_of(stage[0])) == made


@cases(
    "mode made",
    {"enforce": ("Enforce", True), "recommend": ("Recommend", False), "off": ("Off", False)},
)
def test_it_exists_while_keda_may_move(mode: str, *, made: bool) -> None:
    """The mode of the spec counts, also where the autoscaler's last word is of the mode before."""
    assert ("ScaledObject/server" in staged({"mode": mode}, addresses=("http://own",))) is made


def kinds_of(snapshot: Snapshot) -> set[str]:
    return {one["kind"] for one in build(snapshot, decide(snapshot))}
