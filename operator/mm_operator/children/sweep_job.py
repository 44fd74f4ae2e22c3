"""The Job that removes engines from the operator's claim which no model has used for `gcAfter`."""

from mm_api import labels
from mm_api.contract import Command, Flag
from mm_api.v1alpha1 import MultimodalModelSpec, duration
from mm_operator.children import pod, volumes
from mm_operator.children.job_pod import build_job, build_job_pod
from mm_operator.children.metadata import Manifest, own_metadata
from mm_operator.model import Plan, Snapshot
from mm_operator.plan.store import store_of

LIMIT_SECONDS = 1800
"""Reading manifests and deleting files: minutes on a slow share."""

_REQUESTS = {"cpu": "50m", "memory": "128Mi"}
_MEMORY_LIMIT = "512Mi"


def build_sweep_job(snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan) -> Manifest | None:
    """Return the Job when a sweep must start."""
    sweep, wanted = plan.garbage_collection, spec.build.store.gc_after
    if not sweep.start or wanted is None:
        return None
    store = store_of(spec)
    arguments = [Command.STORE, Command.STORE_GC, Flag.STORE, store.directory]
    arguments += [Flag.KEEP, *sweep.keep]
    arguments += [Flag.UNUSED_FOR, f"{duration.parse(wanted).total_seconds():g}"]
    marks = {labels.SWEEP: "true", labels.ATTEMPT: str(sweep.attempt)}
    job_pod = build_job_pod(
        snapshot,
        spec,
        name="sweep",
        limit_seconds=LIMIT_SECONDS,
        arguments=arguments,
        environment=[],
        resources=pod.small(_REQUESTS, _MEMORY_LIMIT, beside=spec.build.resources),
        mounts=[volumes.store_mount()],
        attached=[volumes.store_volume(spec)],
    )
    metadata = own_metadata(
        snapshot, name=sweep.job, component=labels.Component.SWEEP, annotations=marks
    )
    return build_job(metadata, job_pod, retries=0)  # the next sweep is the next try
