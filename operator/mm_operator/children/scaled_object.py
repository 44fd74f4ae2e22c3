"""The ScaledObject of `autoscaling.engine: KEDA`, and how KEDA may read that Prometheus.

KEDA reads the operator's recommendation from Prometheus; pace and vetoes are in it already. Two
settings belong together: `ignoreNullValues: "false"` makes an empty answer an error (by KEDA's
default it is 0, which takes the pods away when a Prometheus restarts), and the fallback makes of an
error the replicas there are.

KEDA queries one address for each trigger, and its autoscaler follows the highest answer: with a
pair of Prometheus there are two triggers, and while one of them is away replicas do not fall.
"""

from mm_api import labels
from mm_api.v1alpha1 import AutoscalingSpec, MultimodalModelSpec, PrometheusSpec
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
            "triggers": _triggers(snapshot, wanted, keda),
        },
    }


def build_trigger_authentication(
    snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan
) -> Manifest | None:
    """Return how KEDA reads the Secrets that the spec names, where it names any."""
    wanted, keda = spec.autoscaling, snapshot.settings.keda
    if keda is None or wanted is None or wanted.prometheus is None:
        return None
    parameters = _parameters(wanted.prometheus)
    ref = Ref("TriggerAuthentication", names.autoscaler(snapshot.name))
    if not parameters or not _is_wanted(snapshot, spec, plan, ref):
        return None
    return {
        "apiVersion": _API_VERSION,
        "kind": ref.kind,
        "metadata": own_metadata(snapshot, name=ref.name, component=labels.Component.SERVER),
        "spec": {"secretTargetRef": parameters},
    }


def keda_problem(spec: AutoscalingSpec, keda: KedaSettings) -> str:
    """Return what KEDA cannot do of what the spec requires, as a message; empty when it can."""
    prometheus = spec.prometheus
    if prometheus is None:
        if keda.addresses:
            return ""
        return (
            "engine KEDA needs a Prometheus: set autoscaling.prometheus.addresses, or the "
            "operator's own (chart value prometheus.addresses)"
        )
    if prometheus.tls.server_name:
        return (
            "KEDA cannot look for another name in a certificate: remove prometheus.tls.serverName "
            "and use a name that the certificate has, or set autoscaling.engine to Builtin"
        )
    if prometheus.tls.insecure_skip_verify and prometheus.tls.client_secret_ref:
        return (
            "KEDA always verifies the server when it presents a client certificate: remove "
            "prometheus.tls.insecureSkipVerify and set prometheus.tls.caSecretRef"
        )
    return ""


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


def _triggers(snapshot: Snapshot, wanted: AutoscalingSpec, keda: KedaSettings) -> list[Manifest]:
    named = wanted.prometheus
    insecure = named.tls.insecure_skip_verify if named else keda.insecure
    modes = _modes(named) if named else keda.auth_modes
    metadata = {
        "query": recommendation(
            snapshot, tuple(sorted(named.match_labels.items())) if named else keda.match_labels
        ),
        # So many replicas that each accounts for one: exactly what is recommended.
        "threshold": "1",
        "ignoreNullValues": "false",
        **({"unsafeSsl": "true"} if insecure else {}),
        **({"authModes": modes} if modes else {}),
    }
    return [
        {
            "type": "prometheus",
            "metricType": "AverageValue",
            "metadata": {"serverAddress": address.rstrip("/"), **metadata},
            "authenticationRef": _authentication(snapshot, named, keda),
        }
        for address in (named.addresses if named else keda.addresses)
    ]


def recommendation(snapshot: Snapshot, match_labels: tuple[tuple[str, str], ...]) -> str:
    """Return the query: one number, or nothing while no leader says one."""
    own = (("model", snapshot.name), ("namespace", snapshot.namespace))
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in (*own, *match_labels))
    # While leaders change two of them may have spoken lately.
    return f"max({METRIC}{{{pairs}}})"


def _authentication(
    snapshot: Snapshot, named: PrometheusSpec | None, keda: KedaSettings
) -> Manifest | None:
    if named is not None:
        return {"name": names.autoscaler(snapshot.name)} if _parameters(named) else None
    if keda.authentication:
        return {"kind": "ClusterTriggerAuthentication", "name": keda.authentication}
    return None


def _modes(spec: PrometheusSpec) -> str:
    modes = {
        "tls": spec.tls.client_secret_ref,
        "bearer": spec.token_secret_ref,
        "basic": spec.basic_auth_secret_ref,
    }
    return ",".join(name for name, ref in modes.items() if ref is not None)


def _parameters(spec: PrometheusSpec) -> list[Manifest]:
    """Return KEDA's parameters and the keys of Secrets that they come from.

    KEDA looks at an authority only beside some credential. Where there is none, KEDA itself must
    trust it, see its flag --ca-dir.
    """
    found: list[tuple[str, str, str]] = []
    if (token := spec.token_secret_ref) is not None:
        found.append(("bearerToken", token.name, token.key))
    if (basic := spec.basic_auth_secret_ref) is not None:
        found += [("username", basic.name, "username"), ("password", basic.name, "password")]
    if (client := spec.tls.client_secret_ref) is not None:
        found += [("cert", client.name, "tls.crt"), ("key", client.name, "tls.key")]
    if found and (ca := spec.tls.ca_secret_ref) is not None:
        found.append(("ca", ca.name, ca.key))
    return [{"parameter": what, "name": name, "key": key} for what, name, key in found]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
