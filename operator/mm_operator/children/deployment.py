"""The serving pods: one Deployment per model, its pod template recorded with its revision."""

from typing import Any

from mm_api import labels
from mm_api.documents.model_plan import ModelPlan
from mm_api.documents.serving_plan import ServingPlan
from mm_api.v1alpha1 import MultimodalModelSpec, duration
from mm_operator.children import containers, hardware, pod, pull, volumes
from mm_operator.children.metadata import Manifest, own_labels, own_metadata
from mm_operator.model import Plan, RolloutDecision, Snapshot
from mm_operator.plan import names
from mm_operator.plan.fingerprint import canonical_json
from mm_operator.plan.records import SERVING_KEY
from mm_operator.plan.retention import recorded_template
from mm_operator.plan.store import store_of

OLD_REPLICA_SETS = 1
"""Revisions live in ConfigMaps that go with their last pod: older ones could not be started."""


def build_deployment(snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan) -> Manifest | None:
    """Return the Deployment once there is a revision to serve.

    While the rollout is held the recorded template is used, byte for byte, with today's number of
    replicas; a held Deployment whose record is lost is left alone.
    """
    template = pod_template(snapshot, spec, plan)
    if template is None:
        return None
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": own_metadata(
            snapshot,
            name=names.deployment(snapshot.name),
            component=labels.Component.SERVER,
        ),
        "spec": {
            "replicas": spec.replicas,
            "progressDeadlineSeconds": int(
                duration.parse(spec.rollout.progress_deadline).total_seconds()
            ),
            "revisionHistoryLimit": OLD_REPLICA_SETS,
            "selector": {"matchLabels": selector(snapshot.name)},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1},
            },
            "template": template,
        },
    }


def selector(model: str) -> dict[str, str]:
    """Return the labels that select the serving pods of a model; they never change."""
    return {labels.MODEL: model, labels.APP_COMPONENT: labels.Component.SERVER}


def pod_template(
    snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan
) -> dict[str, Any] | None:
    """Return the pod template of the revision that is served, or None when there is none."""
    rollout = plan.rollout
    if rollout.held:
        return recorded_template(snapshot, rollout)
    if not rollout.serving_hash or plan.serving_plan is None or plan.sizes is None:
        return None
    return _fresh_template(snapshot, spec, rollout, plan.serving_plan, plan.sizes)


def template_text(template: dict[str, Any]) -> str:
    """Return a template as it is recorded."""
    return canonical_json(template)


def _fresh_template(
    snapshot: Snapshot,
    spec: MultimodalModelSpec,
    rollout: RolloutDecision,
    serving: ServingPlan,
    sizes: ModelPlan,
) -> dict[str, Any]:
    image = spec.runtime.image or snapshot.settings.runtime_image
    manifest = store_of(spec).manifest(serving.fingerprint)
    gpu = hardware.planned_gpu(spec.runtime.gpu, sizes)
    server = containers.build_server(
        spec,
        image=image,
        manifest=manifest,
        gpu=gpu,
        host_bytes=hardware.host_bytes(sizes),
    )
    config = names.serving_config(snapshot.name, rollout.serving_hash)
    template: dict[str, Any] = {
        "metadata": {
            "labels": {
                **spec.runtime.pod_labels,
                **own_labels(snapshot.name, labels.Component.SERVER),
            },
            "annotations": {labels.SERVING_HASH: rollout.serving_hash},
        },
        "spec": {
            "automountServiceAccountToken": False,
            "containers": [containers.build_gateway(spec, image=image, manifest=manifest)],
            "enableServiceLinks": False,
            "initContainers": [*pull.build_pull(spec, image, serving.fingerprint), server],
            "securityContext": pod.pod_security(),
            "terminationGracePeriodSeconds": containers.grace_seconds(spec),
            "volumes": [
                volumes.serving_volume(spec),
                {
                    "name": "serving",
                    "configMap": {
                        "name": config,
                        "items": [{"key": SERVING_KEY, "path": SERVING_KEY}],
                    },
                },
                pod.scratch("work"),
                {
                    "name": "shm",
                    "emptyDir": {
                        "medium": "Memory",
                        "sizeLimit": str(serving.pools.shm_bytes),
                    },
                },
                pod.scratch("tmp"),
                *containers.auth_volumes(spec),
            ],
            **pod.pull_secrets(list(spec.runtime.image_pull_secrets)),
            **pod.placement(spec.runtime, gpu),
        },
    }
    if spec.runtime.service_account_name:
        template["spec"]["serviceAccountName"] = spec.runtime.service_account_name
    return template
