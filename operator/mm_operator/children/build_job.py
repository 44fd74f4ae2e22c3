"""The Job that builds an engine into the store, shared by every model that needs the engine.

It is owned by the engine's ConfigMap: a Job cannot be changed once it exists, its owners could.
"""

from mm_api import labels
from mm_api.contract import BUILD_PERMANENT, CONFIG_MOUNT, PLAN_FILE, Command, Flag
from mm_api.documents.build_plan import BuildPlan
from mm_api.v1alpha1 import MultimodalModelSpec, duration
from mm_operator.children import device_claims, hardware, pod, sources, volumes
from mm_operator.children.job_pod import build_job, build_job_pod, failure_policy
from mm_operator.children.metadata import Manifest, config_reference, engine_labels
from mm_operator.model import EngineState, Plan, Snapshot, Step
from mm_operator.plan.jobs import job_inputs
from mm_operator.plan.records import plan_digest
from mm_operator.plan.store import store_of


def build_build_job(snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan) -> Manifest | None:
    """Return the Job when a build must start and the ConfigMap of its plan exists."""
    engine = snapshot.observed.engines.get(plan.engine_config, EngineState())
    if plan.build.step is not Step.START or plan.build_plan is None or engine.config is None:
        return None
    fingerprint = plan.build_plan.fingerprint
    metadata = {
        "name": plan.build.job,
        "namespace": snapshot.namespace,
        "labels": engine_labels(fingerprint),
        "annotations": {
            labels.INPUTS_HASH: fingerprint,
            labels.ATTEMPT: str(plan.build.attempt),
            labels.TERMS_HASH: job_inputs(spec, snapshot.settings, snapshot.uid).digest,
            labels.MADE_BY: snapshot.uid,
            labels.MADE_FOR: snapshot.name,
        },
        "ownerReferences": [config_reference(engine.config.name, engine.config.uid)],
    }
    return build_job(
        metadata,
        _pod(snapshot, spec, plan, plan.build_plan),
        retries=spec.build.retries,
        ttlSecondsAfterFinished=int(duration.parse(spec.build.ttl_after_finished).total_seconds()),
        podFailurePolicy=failure_policy("build", BUILD_PERMANENT),
    )


def _pod(
    snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan, build_plan: BuildPlan
) -> Manifest:
    # This model's own: the recorded plan may be of a model that found the same files elsewhere.
    commit = plan.inspect.facts.source_revision if plan.inspect.facts else None
    requests = hardware.building_requests(build_plan)
    gpu = hardware.building_gpu(spec, plan.engine)
    store = store_of(spec)
    flags = {
        Flag.PLAN: f"{CONFIG_MOUNT}/{PLAN_FILE}",
        Flag.PLAN_SHA256: plan_digest(build_plan),
        Flag.SOURCE: sources.source_argument(spec, commit),
        Flag.STORE: store.address,
        **({Flag.WORK: store.directory} if store.bucket else {}),
        Flag.HOLDER: f"{snapshot.namespace}/{plan.build.job}",
    }
    return build_job_pod(
        snapshot,
        spec,
        name="build",
        limit_seconds=int(duration.parse(spec.build.timeout).total_seconds()),
        arguments=[Command.BUILD, *pod.flags(flags), *sources.adapter_arguments(spec)],
        environment=[
            *sources.source_environment(spec, spec.network.over(snapshot.settings.network)),
            *sources.store_environment(spec),
        ],
        resources=pod.compute(spec.build.resources, gpu=gpu, defaults=requests),
        mounts=[
            *volumes.build_mounts(spec),
            {"name": "plan", "mountPath": CONFIG_MOUNT, "readOnly": True},
        ],
        attached=volumes.build_volumes(spec),
        documents=[pod.file_of("plan", plan.engine_config, PLAN_FILE, PLAN_FILE)],
        gpu=gpu,
        claims=device_claims.of_build(gpu, plan.engine_config),
    )
