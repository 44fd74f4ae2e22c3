"""The ConfigMap that models share about one engine: its plan, and its result once it is built.

It is owned by every model that needs the engine and goes with the last of them. What is recorded
stays: two models may have come to one engine by different ways, and must not rewrite each other.
The model whose Job is being made is the exception: the Job knows its plan's digest.
"""

from mm_api.contract import PLAN_FILE
from mm_operator.children.metadata import Manifest, engine_labels, shared_metadata
from mm_operator.model import EngineState, Owner, Plan, Snapshot, Step
from mm_operator.plan.records import (
    BUILDER_KEY,
    BUILT_AT_KEY,
    DAMAGE_KEY,
    RESULT_KEY,
    read_build_plan,
    written_builder,
    written_plan,
)


def build_engine_config(snapshot: Snapshot, plan: Plan) -> Manifest | None:
    """Return the ConfigMap of the current plan's engine."""
    if plan.build_plan is None:
        return None
    state = snapshot.observed.engines.get(plan.engine_config, EngineState())
    build = plan.build
    recorded = None
    if build.step is not Step.START:
        recorded = read_build_plan(state.config, plan.build_plan.fingerprint)
    data = {PLAN_FILE: written_plan(recorded or plan.build_plan)}
    if build.record:
        data[RESULT_KEY] = build.record.to_json(indent=2)
    if build.record and build.builder:
        data[BUILDER_KEY] = written_builder(build.builder)
    if build.record and build.built_at:
        data[BUILT_AT_KEY] = build.built_at.isoformat()
    if build.damage:
        data[DAMAGE_KEY] = build.damage
    marks = engine_labels(plan.build_plan.fingerprint, plan.store_key)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": shared_metadata(snapshot, name=plan.engine_config, labels_=marks),
        "data": data,
    }


def build_released_configs(snapshot: Snapshot, plan: Plan) -> tuple[Manifest, ...]:
    """Return the ConfigMaps of engines that this model leaves to their other owners."""
    return tuple(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": shared_metadata(
                snapshot, name=name, labels_=config.labels, joins=False, former=[snapshot.uid]
            ),
            "data": dict(config.data),
        }
        for name in plan.release
        if (config := snapshot.observed.engines.get(name, EngineState()).config)
        and other_owners(snapshot, name)
    )


def other_owners(snapshot: Snapshot, name: str) -> tuple[Owner, ...]:
    """Return the models beside this one that own an engine's ConfigMap."""
    config = snapshot.observed.engines.get(name, EngineState()).config
    return tuple(owner for owner in config.owners if owner.uid != snapshot.uid) if config else ()
