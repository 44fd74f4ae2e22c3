"""Every child of a model: which objects must exist, and which of the existing ones must go."""

from collections.abc import Iterable

from mm_operator.children.build_job import build_build_job
from mm_operator.children.canary import build_canary
from mm_operator.children.config_maps import (
    build_engine_config,
    build_facts_config,
    build_released_configs,
    build_serving_config,
    other_owners,
)
from mm_operator.children.deployment import build_deployment, pod_template
from mm_operator.children.device_claims import build_claim_templates
from mm_operator.children.disruption_budget import build_disruption_budget
from mm_operator.children.encoders import build_encoders, encoder_template
from mm_operator.children.inspect_job import build_inspect_job
from mm_operator.children.metadata import Manifest
from mm_operator.children.scaled_object import build_scaled_object
from mm_operator.children.service import build_raw_triton, build_service
from mm_operator.children.store_claim import build_store_claim
from mm_operator.children.sweep_job import build_sweep_job
from mm_operator.model import EngineState, JobPhase, JobState, Plan, Ref, Snapshot
from mm_operator.plan.jobs import is_of


def build(snapshot: Snapshot, plan: Plan) -> tuple[Manifest, ...]:
    """Return the full objects to apply, in this order: what others need comes first."""
    spec = snapshot.spec
    if plan.frozen or spec is None:
        return ()
    encoder = encoder_template(snapshot, spec, plan)
    candidates = (
        build_inspect_job(snapshot, spec, plan),
        build_facts_config(snapshot, plan),
        build_store_claim(snapshot, spec, plan),
        build_engine_config(snapshot, plan),
        *build_claim_templates(snapshot, spec, plan),
        build_build_job(snapshot, spec, plan),
        build_serving_config(snapshot, plan, pod_template(snapshot, spec, plan), encoder),
        *build_encoders(snapshot, spec, plan.rollout, encoder),
        build_service(snapshot, spec, plan),
        *build_raw_triton(snapshot, spec, plan),
        build_deployment(snapshot, spec, plan),
        *build_canary(snapshot, spec, plan),
        build_disruption_budget(snapshot, spec, plan),
        build_scaled_object(snapshot, spec, plan),
        build_sweep_job(snapshot, spec, plan),
        *build_released_configs(snapshot, plan),
    )
    return tuple(child for child in candidates if child is not None)


def unwanted(snapshot: Snapshot, plan: Plan, built: Iterable[Manifest]) -> tuple[Ref, ...]:
    """Return the existing objects to delete, sorted: ours, neither built nor kept.

    Of pods only those that the plan names: all others are their Deployment's or Job's.
    """
    if plan.frozen:
        return ()
    stay = {Ref(child["kind"], child["metadata"]["name"]) for child in built} | plan.keep
    return tuple(
        sorted(((snapshot.observed.refs | _shared(snapshot, plan)) - stay) | plan.pods_to_restart)
    )


def _shared(snapshot: Snapshot, plan: Plan) -> frozenset[Ref]:
    """Return Jobs of the current engine, and engines that no other model needs with their Jobs.

    A Job that built the current engine is left to Kubernetes, which deletes it when the time that
    the spec gives it is over: its pod's log can be read until then, and nothing else needs it.
    """
    refs: set[Ref] = set()
    for name in (plan.engine_config, *plan.release):
        engine = snapshot.observed.engines.get(name)
        if engine is None or (name in plan.release and other_owners(snapshot, name)):
            continue
        refs.update(
            Ref("Job", job.name)
            for job in engine.jobs
            if name in plan.release or not _has_its_rest(job, engine)
        )
        if name in plan.release:
            refs.add(Ref("ConfigMap", name))
    return frozenset(refs)


def _has_its_rest(job: JobState, engine: EngineState) -> bool:
    # The result is taken from the pod, a moment before its Job counts as complete.
    done = job.phase is JobPhase.SUCCEEDED or any(end.succeeded for end in job.ends)
    return done and engine.config is not None and is_of(job, engine.config)
