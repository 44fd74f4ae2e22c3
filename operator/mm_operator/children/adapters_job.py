"""The Job that puts the LoRA adapters of running pods into the engine's store."""

from mm_api import labels
from mm_api.contract import ADAPTERS_PERMANENT, Command, Flag
from mm_api.documents.adapter_room import LoraRoom
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.children import pod, sources, volumes
from mm_operator.children.job_pod import build_job_pod, build_job_template, failure_policy
from mm_operator.children.metadata import Manifest, own_labels, own_metadata
from mm_operator.model import Plan, Snapshot, Step
from mm_operator.plan.store import store_of

LIMIT_SECONDS = 1800
"""Adapters have megabytes, the largest a few gigabytes."""

RETRIES = 2
"""Inside one Job, for lost nodes and evictions; the operator tries again later."""

_REQUESTS = {"cpu": "100m", "memory": "128Mi"}
_MEMORY_LIMIT = "1Gi"
"""Files are copied in pieces and only headers are parsed."""


def build_adapters_job(
    snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan
) -> Manifest | None:
    """Return the Job when adapters must be copied."""
    adapters, serving = plan.adapters, plan.serving_plan
    if adapters is None or adapters.step is not Step.START or serving is None:
        return None
    if serving.lora_room is None:
        return None
    marks = {labels.INPUTS_HASH: adapters.inputs_hash, labels.ATTEMPT: str(adapters.attempt)}
    component = labels.Component.ADAPTERS
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": own_metadata(
            snapshot, name=adapters.job, component=component, annotations=marks
        ),
        "spec": {
            "backoffLimit": RETRIES,
            "podFailurePolicy": failure_policy("adapters", ADAPTERS_PERMANENT),
            "template": build_job_template(
                own_labels(snapshot.name, component),
                _pod(snapshot, spec, serving.fingerprint, serving.lora_room),
            ),
        },
    }


def _pod(
    snapshot: Snapshot, spec: MultimodalModelSpec, fingerprint: str, room: LoraRoom
) -> Manifest:
    return build_job_pod(
        snapshot,
        spec,
        name="adapters",
        limit_seconds=LIMIT_SECONDS,
        arguments=[
            *(Command.ADAPTERS, Flag.STORE, store_of(spec).directory),
            *(Flag.FINGERPRINT, fingerprint, Flag.KEY, room.key),
            *(Flag.GENERATION, str(snapshot.generation), Flag.MAX_RANK, str(room.max_rank)),
            *sources.adapter_arguments(spec),
        ],
        environment=sources.source_environment(spec, spec.network.over(snapshot.settings.network)),
        resources=pod.small(_REQUESTS, _MEMORY_LIMIT, beside=spec.build.resources),
        mounts=volumes.build_mounts(spec),
        attached=volumes.build_volumes(spec),
    )
