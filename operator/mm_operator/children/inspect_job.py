"""The Job that reads a checkpoint's small files and headers, and reports its facts.

It needs no GPU.
"""

from mm_api import labels
from mm_api.contract import INSPECT_PERMANENT, Command, Flag
from mm_api.evaluation import PROCESS_BYTES
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.children import pod, sources, volumes
from mm_operator.children.job_pod import build_job, build_job_pod, failure_policy
from mm_operator.children.metadata import Manifest, own_metadata
from mm_operator.model import Plan, Snapshot, Step
from mm_operator.plan.jobs import job_inputs

LIMIT_SECONDS = 1800
"""Reading headers takes seconds, digests of a big checkpoint on a slow volume minutes."""

RETRIES = 2
"""Inside one Job, for lost nodes and evictions; the operator tries again later."""

_REQUESTS = {"cpu": "100m", "memory": f"{PROCESS_BYTES >> 20}Mi"}
"""The checkpoint's class is made without memory for its weights, in torch."""

_MEMORY_LIMIT = "1Gi"
"""Digests are read in pieces and only headers are parsed: a hostile file must not take the node."""

_ARCHIVE_MEMORY_LIMIT = "4Gi"
"""Weights of FairSeq's layout are read to be converted: 1.8 GB for those of wmt14.en-fr."""


def build_inspect_job(snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan) -> Manifest | None:
    """Return the Job when an inspection must start."""
    inspect = plan.inspect
    if inspect.step is not Step.START:
        return None
    annotations = {
        labels.INPUTS_HASH: inspect.inputs_hash,
        labels.ATTEMPT: str(inspect.attempt),
        labels.TERMS_HASH: job_inputs(spec, snapshot.settings, snapshot.uid).digest,
    }
    return build_job(
        own_metadata(
            snapshot,
            name=inspect.job,
            component=labels.Component.INSPECT,
            annotations=annotations,
        ),
        _pod(snapshot, spec),
        retries=RETRIES,
        podFailurePolicy=failure_policy("inspect", INSPECT_PERMANENT),
    )


def _pod(snapshot: Snapshot, spec: MultimodalModelSpec) -> Manifest:
    arguments = [Command.INSPECT, Flag.SOURCE, sources.source_argument(spec)]
    if spec.model.family:
        arguments += [Flag.FAMILY, spec.model.family]
    if spec.model.allow_pickle:
        arguments.append(Flag.ALLOW_PICKLE)
    if spec.model.trust_remote_code:
        arguments.append(Flag.TRUST_REMOTE_CODE)
    arguments += sources.adapter_arguments(spec)
    return build_job_pod(
        snapshot,
        spec,
        name="inspect",
        limit_seconds=LIMIT_SECONDS,
        arguments=arguments,
        environment=sources.source_environment(spec, spec.network.over(snapshot.settings.network)),
        resources=pod.small(
            _REQUESTS,
            _ARCHIVE_MEMORY_LIMIT if spec.model.source.archive else _MEMORY_LIMIT,
            beside=spec.build.resources,
        ),
        mounts=volumes.inspect_mounts(spec),
        attached=volumes.source_volumes(spec),
    )
