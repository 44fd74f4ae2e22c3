"""What the pods of a model have in common, whether they answer requests or only encode images."""

from dataclasses import dataclass
from typing import Any

from mm_api import labels
from mm_api.contract import METRICS_PATH, SERVING_FILE
from mm_api.v1alpha1 import (
    MultimodalModelSpec,
    RolloutSpec,
    RuntimeGpu,
    Scheduling,
    TopologySpread,
    duration,
)
from mm_operator import names
from mm_operator.children import containers, device_claims, pod, pull, volumes
from mm_operator.children.metadata import Manifest, own_labels, own_metadata
from mm_operator.children.outward import with_network
from mm_operator.children.tracing import with_tracing
from mm_operator.digests import plain
from mm_operator.model import RolloutDecision, Snapshot

OLD_REPLICA_SETS = 1
"""Revisions live in ConfigMaps that go with their last pod: older ones could not be started."""


@dataclass(frozen=True, slots=True)
class ServingPod:
    """What differs between the two kinds of pods."""

    component: str
    containers: list[Manifest]
    init_containers: list[Manifest]
    volumes: list[Manifest]
    """Beside those that every serving pod has."""

    shm_bytes: int
    gpu: RuntimeGpu
    scheduling: Scheduling
    page_port: int
    """Where its metrics are: one page, also of what runs beside."""


def component_selector(model: str, component: str) -> dict[str, str]:
    """Return the labels that select the pods of one kind; they never change."""
    return {labels.MODEL: model, labels.APP_COMPONENT: component}


def serving_template(
    snapshot: Snapshot, spec: MultimodalModelSpec, rollout: RolloutDecision, kind: ServingPod
) -> dict[str, Any]:
    """Return the pod template of a revision."""
    config = names.serving_config(snapshot.name, rollout.serving_hash)
    scraped = {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(kind.page_port),
        "prometheus.io/path": METRICS_PATH,
    }
    template: dict[str, Any] = {
        "metadata": {
            "labels": {**spec.runtime.pod_labels, **own_labels(snapshot.name, kind.component)},
            "annotations": {
                labels.SERVING_HASH: rollout.serving_hash,
                **(scraped if snapshot.settings.scrape_annotations else {}),
            },
        },
        "spec": {
            "automountServiceAccountToken": False,
            "containers": kind.containers,
            "enableServiceLinks": False,
            **({"initContainers": kind.init_containers} if kind.init_containers else {}),
            "securityContext": pod.pod_security(snapshot.settings.user_ids_of(spec)),
            "terminationGracePeriodSeconds": containers.grace_seconds(spec),
            "volumes": [
                volumes.serving_volume(spec),
                pod.file_of("serving", config, SERVING_FILE, SERVING_FILE),
                pod.scratch("work"),
                {
                    "name": "shm",
                    "emptyDir": {"medium": "Memory", "sizeLimit": str(kind.shm_bytes)},
                },
                pod.scratch("tmp"),
                *kind.volumes,
            ],
            **pod.pull_secrets(snapshot.settings.pull_secrets_of(spec)),
            **pod.placement(kind.scheduling, kind.gpu),
            **device_claims.of_pod(kind.gpu, snapshot.name),
        },
    }
    if spread := spec.runtime.topology_spread_constraints:
        selector = component_selector(snapshot.name, kind.component)
        template["spec"]["topologySpreadConstraints"] = [_spread(one, selector) for one in spread]
    if spec.runtime.service_account_name:
        template["spec"]["serviceAccountName"] = spec.runtime.service_account_name
    pod_spec = with_network(
        template["spec"],
        spec.network.over(snapshot.settings.network),
        proxied={pull.NAME},
        # Triton's own clients name URLs, too.
    )
    return {**template, "spec": with_tracing(pod_spec, snapshot, rollout.serving_hash)}


def _spread(constraint: TopologySpread, selector: dict[str, str]) -> Manifest:
    """Return a constraint; pods of a former revision do not count."""
    return {
        **plain(constraint),
        "labelSelector": {"matchLabels": selector},
        "matchLabelKeys": ["pod-template-hash"],
    }


def serving_deployment(
    snapshot: Snapshot,
    spec: MultimodalModelSpec,
    template: dict[str, Any],
    *,
    rollout: RolloutDecision,
    component: str,
    name: str,
    replicas: int,
) -> Manifest:
    """Return the Deployment of a template."""
    deadline = duration.parse(spec.rollout.progress_deadline)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": own_metadata(
            snapshot, name=name, component=component, annotations=rollout_marks(rollout)
        ),
        "spec": {
            "replicas": replicas,
            "progressDeadlineSeconds": int(deadline.total_seconds()),
            "revisionHistoryLimit": OLD_REPLICA_SETS,
            "selector": {"matchLabels": component_selector(snapshot.name, component)},
            "strategy": _strategy(spec.rollout),
            "template": template,
        },
    }


def rollout_marks(rollout: RolloutDecision) -> dict[str, str] | None:
    """Return what is remembered of a rollout: what began it."""
    marks = {
        labels.SPEC_DIGEST: rollout.spec_digest,
        labels.BY_TURNS: rollout.serving_hash if rollout.by_turns else "",
    }
    return {name: value for name, value in marks.items() if value} or None


def _strategy(rollout: RolloutSpec) -> Manifest:
    if rollout.strategy == "Recreate":
        return {"type": "Recreate"}
    return {"type": "RollingUpdate", "rollingUpdate": rolling_update(rollout)}


def rolling_update(rollout: RolloutSpec) -> Manifest:
    """Return how a controller replaces pods one by one; without a word none is missing."""
    surge, missing = rollout.max_surge, rollout.max_unavailable
    return {"maxUnavailable": missing or 0, "maxSurge": 1 if surge is None else surge}


LEAST_START_SECONDS = 1800
"""What a small engine may take on a node that pulls images at the same time."""

MOST_START_SECONDS = 6 * 3600
"""The longest that is waited for."""

_FIXED_SECONDS = 600
"""Without what grows with the engine."""

_SLOW_BYTES = 20 * 10**6
"""A second of a slow store: 1 Gbit/s shared by five pods that start together."""


def start_seconds(host_bytes: int) -> int:
    needed = max(LEAST_START_SECONDS, _FIXED_SECONDS + -(-host_bytes // _SLOW_BYTES))
    return min(MOST_START_SECONDS, needed)
