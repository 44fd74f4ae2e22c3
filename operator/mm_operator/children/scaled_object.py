"""The ScaledObject of `autoscaling.engine: KEDA`.

KEDA reads the operator's recommendation from Prometheus; limits and vetoes are in it already. Two
settings belong together: `ignoreNullValues: "false"` makes an empty answer an error (by KEDA's
default it is 0, which takes the pods away when a Prometheus restarts), and the fallback makes of an
error the replicas there are.

KEDA queries one address for each trigger, and its autoscaler follows the highest answer: with a
pair of Prometheus there are two triggers, and while one of them is away replicas do not fall.
"""

from mm_api import labels
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator import names
from mm_operator.children.metadata import Manifest, own_metadata
from mm_operator.model import KedaSettings, Plan, Ref, Snapshot

METRIC = "mm_autoscaling_desired_replicas"
"""What the operator says on /metrics; the leader only."""

POLL_SECONDS = 15
"""As often as the autoscaler decides, and the controller of HorizontalPodAutoscalers queries."""

EXCLUDED_LABELS = "scaledobject.keda.sh/hpa-excluded-labels"
"""Annotation: labels that KEDA does not copy to the HorizontalPodAutoscaler it makes. Without it
that object would say that the operator manages it."""

_API_VERSION = "keda.sh/v1alpha1"
_FAILURES = 4
"""Default of `fallback.failures` where the spec has none: a minute."""
_STEP_WITHIN_TOLERANCE = 10
"""Replicas from which one more or less is a tenth: by default a controller ignores such a step."""


def build_scaled_object(
    snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan
) -> Manifest | None:
    """Return the object while replicas are to be moved by KEDA, once something is served."""
    keda, wanted = snapshot.settings.keda, spec.autoscaling
    ref = Ref("ScaledObject", names.autoscaler(snapshot.name))
    if keda is None or wanted is None or not _is_wanted(snapshot, spec, plan, ref):
        return None
    fallback = wanted.fallback
    return {
        "apiVersion": _API_VERSION,
        "kind": ref.kind,
        "metadata": own_metadata(
            snapshot,
            name=ref.name,
            component=labels.Component.SERVER,
            annotations={EXCLUDED_LABELS: labels.APP_MANAGED_BY},
        ),
        "spec": {
            "scaleTargetRef": {
                "apiVersion": labels.API_VERSION,
                "kind": labels.KIND,
                "name": snapshot.name,
            },
            "minReplicaCount": wanted.min_replicas,
            "maxReplicaCount": wanted.max_replicas,
            "pollingInterval": POLL_SECONDS,
            "fallback": {
                "failureThreshold": fallback.failures if fallback else _FAILURES,
                "replicas": fallback.replicas if fallback else wanted.min_replicas,
                "behavior": "currentReplicasIfHigher",
            },
            "advanced": {
                # Removal of the object, for another engine too, leaves the replicas alone.
                "restoreToOriginalReplicaCount": False,
                # KEDA knows the tolerance since 2.18, as it does the annotation above.
                "horizontalPodAutoscalerConfig": {"behavior": _at_once(wanted.max_replicas)},
            },
            "triggers": _triggers(snapshot, keda),
        },
    }


def _is_wanted(snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan, ref: Ref) -> bool:
    """Return whether an object for KEDA should exist.

    It is made when the autoscaler has said so, which looks for rivals first. A new leader says
    nothing until its first look: what is there stays until then, and nothing is made.
    """
    wanted, served = spec.autoscaling, plan.rollout.serving_hash or plan.rollout.held
    if wanted is None or not served or (wanted.engine, wanted.mode) != ("KEDA", "Enforce"):
        return False
    if snapshot.scaling is None:
        return ref in snapshot.observed.refs
    return snapshot.scaling.by_keda


def _at_once(most: int) -> Manifest:
    """Return a behavior that does what the metric says, up and down; `most` is maxReplicas."""
    rules: Manifest = {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 1000, "periodSeconds": 15}],
    }
    if most > _STEP_WITHIN_TOLERANCE:
        rules["tolerance"] = "0"
    return {"scaleUp": rules, "scaleDown": dict(rules)}


def _triggers(snapshot: Snapshot, keda: KedaSettings) -> list[Manifest]:
    metadata = {
        "query": recommendation(snapshot, keda.match_labels),
        # So many replicas that each accounts for one: exactly what is recommended.
        "threshold": "1",
        "ignoreNullValues": "false",
        **({"unsafeSsl": "true"} if keda.insecure else {}),
        **({"authModes": keda.auth_modes} if keda.auth_modes else {}),
    }
    reference: Manifest = {}  # KEDA's definition refuses null
    if keda.authentication:
        kind = "ClusterTriggerAuthentication"
        reference = {"authenticationRef": {"kind": kind, "name": keda.authentication}}
    return [
        {
            "type": "prometheus",
            "metricType": "AverageValue",
            "metadata": {"serverAddress": address.rstrip("/"), **metadata},
            **reference,
        }
        for address in keda.addresses
    ]


def recommendation(snapshot: Snapshot, match_labels: tuple[tuple[str, str], ...]) -> str:
    """Return the query: one number, or nothing while no leader says one."""
    own = (("model", snapshot.name), ("namespace", snapshot.namespace))
    pairs = ",".join(matcher(name, value) for name, value in (*own, *match_labels))
    # While leaders change two of them may have spoken lately.
    return f"max({METRIC}{{{pairs}}})"


def matcher(label: str, value: str) -> str:
    """Return PromQL's matcher of one value of a label."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{label}="{escaped}"'
