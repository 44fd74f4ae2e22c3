"""GPUs as devices (dynamic resource allocation): what is claimed, by which template, in which pod.

A ResourceClaimTemplate cannot be changed. Its name holds the digest of its content, so that another
claim is another object, and pods of a former revision keep theirs. That of a build goes with the
engine's ConfigMap, as the Job does.
"""

from typing import Final

from mm_api import labels
from mm_api.v1alpha1 import MultimodalModelSpec, RuntimeGpu
from mm_operator import names
from mm_operator.children import hardware
from mm_operator.children.metadata import (
    Manifest,
    config_reference,
    engine_labels,
    own_metadata,
)
from mm_operator.children.pod import CLAIM
from mm_operator.digests import digest
from mm_operator.model import EngineState, Plan, Snapshot, Step

_PRODUCT: Final = 'device.attributes["gpu.nvidia.com"].productName.replace(" ", "-") == "{}"'
"""Attribute of NVIDIA's driver; labels of nodes spell the same name with hyphens."""


def of_pod(gpu: RuntimeGpu, model: str) -> Manifest:
    """Return what the spec of a serving pod says of its claims; empty where it has none."""
    content = _content(gpu)
    return _claims(names.claim_template(model, digest(content))) if content else {}


def of_build(gpu: RuntimeGpu, engine: str) -> Manifest:
    """Return the same of a build's pod; `engine` names the ConfigMap of what is built."""
    content = _content(gpu)
    return _claims(names.build_claim_template(engine, digest(content))) if content else {}


def claimed_by(template: Manifest) -> set[str]:
    claims = template["spec"].get("resourceClaims") or ()
    return {one["resourceClaimTemplateName"] for one in claims}


def build_claim_templates(
    snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan
) -> tuple[Manifest, ...]:
    """Return the templates of servers, of encoders in pods of their own, and of a build."""
    if spec.runtime.gpu.device_class_name is None or plan.engine is None:
        return ()
    made = {one["metadata"]["name"]: one for one in _of_pods(snapshot, spec, plan)}
    return (*made.values(), *_of_builds(snapshot, spec, plan))


def _of_pods(snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan) -> list[Manifest]:
    rollout, engine, serving = plan.rollout, plan.engine, plan.serving_plan
    if rollout.held or not rollout.serving_hash or engine is None or serving is None:
        return []
    gpus = [hardware.planned_gpu(spec, engine)]
    gpus += [hardware.encoder_gpu(spec, engine)] if serving.encoders is not None else []
    return [
        _template(
            own_metadata(
                snapshot,
                name=names.claim_template(snapshot.name, digest(content)),
                component=labels.Component.SERVER,
            ),
            content,
        )
        for content in map(_content, gpus)
        if content is not None
    ]


def _of_builds(snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan) -> list[Manifest]:
    """Return the template of the build Job that starts, or that this model made and that runs."""
    engine = snapshot.observed.engines.get(plan.engine_config, EngineState())
    content = _content(hardware.building_gpu(spec, plan.engine))
    if content is None or plan.build_plan is None or engine.config is None:
        return []
    ours = {job.name for job in engine.jobs if job.annotations.get(labels.MADE_BY) == snapshot.uid}
    still_runs = plan.build.step is Step.RUNNING and plan.build.job in ours
    if plan.build.step is not Step.START and not still_runs:
        return []
    metadata: Manifest = {
        "name": names.build_claim_template(engine.config.name, digest(content)),
        "namespace": snapshot.namespace,
        "labels": engine_labels(plan.build_plan.fingerprint),
        "ownerReferences": [config_reference(engine.config.name, engine.config.uid)],
    }
    return [_template(metadata, content)]


def _claims(name: str) -> Manifest:
    return {"resourceClaims": [{"name": CLAIM, "resourceClaimTemplateName": name}]}


def _template(metadata: Manifest, content: Manifest) -> Manifest:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": metadata,
        "spec": {"spec": content},
    }


def _content(gpu: RuntimeGpu) -> Manifest | None:
    """Return the spec of a claim; None: the pod claims nothing."""
    if gpu.device_class_name is None or not gpu.count:
        return None
    selectors = [_PRODUCT.format(gpu.product)] if gpu.product else []
    selectors += gpu.device_selectors
    request: Manifest = {
        "deviceClassName": gpu.device_class_name,
        "allocationMode": "ExactCount",
        "count": gpu.count,
    }
    if selectors:
        request["selectors"] = [{"cel": {"expression": one}} for one in selectors]
    return {"devices": {"requests": [{"name": CLAIM, "exactly": request}]}}
