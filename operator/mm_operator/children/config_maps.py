"""ConfigMaps: facts of the inspection, an engine's plan and result, how a revision is served.

That of an engine is owned by every model that needs it and goes with the last of them. What is
recorded stays: two models may have come to one engine by different ways, and must not rewrite each
other. The model whose Job is being made is the exception: the Job knows its plan's digest.

The name of a revision's carries its hash, so that a container of an old pod never starts with the
plan of a new one.
"""

from mm_api import labels
from mm_api.contract import PLAN_FILE, SERVING_FILE
from mm_operator import names
from mm_operator.children.device_claims import claimed_by
from mm_operator.children.metadata import Manifest, engine_labels, own_metadata, shared_metadata
from mm_operator.model import EngineState, Owner, Plan, Snapshot, Step
from mm_operator.plan.records import (
    BUILDER_KEY,
    BUILT_AT_KEY,
    CLAIMS_KEY,
    DAMAGE_KEY,
    ENGINE_KEY,
    FACTS_KEY,
    GPU_KEY,
    INSPECTION_KEY,
    RESULT_KEY,
    Inspection,
    read_build_plan,
    read_gpu,
    written_builder,
    written_plan,
)


def build_serving_config(
    snapshot: Snapshot, plan: Plan, template: Manifest | None, encoder: Manifest | None
) -> Manifest | None:
    """Return the ConfigMap of the wanted revision; a held revision keeps the one it has.

    `template`: the pod template that the Deployment gets. `encoder`: that of encoders in pods of
    their own; None: there are none.
    """
    rollout = plan.rollout
    if rollout.held or template is None or plan.serving_plan is None:
        return None
    claims = claimed_by(template) | (claimed_by(encoder) if encoder else set())
    name = names.serving_config(snapshot.name, rollout.serving_hash)
    return _config_map(
        own_metadata(snapshot, name=name, component=labels.Component.SERVER),
        {
            # No part of the revision: an engine that is built again keeps the pods that run.
            SERVING_FILE: plan.serving_plan.model_copy(
                update={"manifest_sha256": plan.build.manifest_sha256}
            ).to_json(indent=2),
            ENGINE_KEY: plan.engine_config,
            **({CLAIMS_KEY: ",".join(sorted(claims))} if claims else {}),
        },
    )


def _config_map(metadata: Manifest, content: dict[str, str]) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": content}


def build_facts_config(snapshot: Snapshot, plan: Plan) -> Manifest | None:
    """Return the ConfigMap once there are facts; until then an older one stays as it is."""
    inspect = plan.inspect
    if inspect.facts is None or inspect.inspected_at is None:
        return None
    inspection = Inspection(
        inputs_hash=inspect.inputs_hash, round=inspect.round, inspected_at=inspect.inspected_at
    )
    name = names.facts_config(snapshot.name)
    data = {
        FACTS_KEY: inspect.facts.to_json(indent=2),
        INSPECTION_KEY: inspection.to_json(indent=2),
    }
    # Kept while there is no plan: what is repaired is planned for the same GPU again.
    gpu = plan.engine.gpu if plan.engine else read_gpu(snapshot.observed.configs.get(name))
    if gpu is not None:
        data[GPU_KEY] = gpu.to_json(indent=2)
    marks = {labels.INPUTS_HASH: inspect.inputs_hash}
    metadata = own_metadata(
        snapshot, name=name, component=labels.Component.INSPECT, annotations=marks
    )
    return _config_map(metadata, data)


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
    marks = engine_labels(plan.build_plan.fingerprint)
    return _config_map(shared_metadata(snapshot, name=plan.engine_config, labels_=marks), data)


def build_released_configs(snapshot: Snapshot, plan: Plan) -> tuple[Manifest, ...]:
    """Return the ConfigMaps of engines that this model leaves to their other owners."""
    return tuple(
        _config_map(
            shared_metadata(
                snapshot, name=name, labels_=config.labels, joins=False, former=[snapshot.uid]
            ),
            dict(config.data),
        )
        for name in plan.release
        if (config := snapshot.observed.engines.get(name, EngineState()).config)
        and other_owners(snapshot, name)
    )


def other_owners(snapshot: Snapshot, name: str) -> tuple[Owner, ...]:
    """Return the models beside this one that own an engine's ConfigMap."""
    config = snapshot.observed.engines.get(name, EngineState()).config
    return tuple(owner for owner in config.owners if owner.uid != snapshot.uid) if config else ()
