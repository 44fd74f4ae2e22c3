"""Snapshots at the stages of a model's life, with the plan made of them."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from mm_api.documents.build_result import BuildResult
from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.trtllm_build import GpuModel
from mm_api.v1alpha1.validation import Problem, validate
from mm_operator import names
from mm_operator.children.all import build
from mm_operator.model import ConfigState, EngineState, Observed, Owner, Plan, Snapshot
from mm_operator.plan import decide
from mm_operator.plan.inspection import inputs_hash
from mm_operator.plan.records import FACTS_KEY, GPU_KEY, INSPECTION_KEY, RESULT_KEY, Inspection
from support.model_documents import document
from support.models import EPOCH, snapshot_of, spec_of, tiny_facts


def fresh(changes: Mapping[str, Any] | None = None) -> tuple[Snapshot, Plan]:
    """Return a model nothing exists of: its inspection starts."""
    problems = problems_of(document(changes))
    assert not problems, problems
    return planned(snapshot_of(changes))


def inspected(
    changes: Mapping[str, Any] | None = None,
    *,
    written: bool = True,
    built: bool = False,
    refused: bool | None = False,
    facts: ModelFacts | None = None,
    commit: str | None = None,
    gpu: GpuModel | None = None,
    **fields: Any,
) -> tuple[Snapshot, Plan]:
    """Return a model with recorded facts.

    Args:
        changes: the spec, laid over the smallest.
        written: the ConfigMap of its engine exists, so the build starts.
        built: the engine is built, so pods are rolled out.
        refused: the plan refuses the spec once it knows the facts; None: it may.
        facts: of another checkpoint than the tiny one.
        commit: what the revision of the source stood for.
        gpu: of a former plan.
        fields: replace fields of the snapshot.
    """
    fresh(changes)
    record = Inspection(inputs_hash=inputs_hash(spec_of(changes), 0), round=0, inspected_at=EPOCH)
    found = (facts or tiny_facts(source_revision=commit)).to_json()
    data = {FACTS_KEY: found, INSPECTION_KEY: record.to_json()}
    if gpu is not None:
        data[GPU_KEY] = gpu.to_json()
    config = ConfigState(names.facts_config("llava"), "uid-of-facts", data=data)
    snapshot = snapshot_of(changes, observed=Observed(configs={config.name: config}), **fields)
    plan = decide(snapshot)
    assert refused is None or refused == (plan.problem is not None), plan.problem
    if not written or plan.build_plan is None:
        return snapshot, plan
    result = BuildResult(fingerprint=plan.build_plan.fingerprint, manifest_sha256="ab" * 32)
    engine = ConfigState(
        plan.engine_config,
        "uid-of-engine",
        data={RESULT_KEY: result.to_json()} if built else {},
        owners=(Owner("other", "uid-of-other"),),
    )
    observed = replace(snapshot.observed, engines={engine.name: EngineState(engine)})
    return planned(replace(snapshot, observed=observed))


def planned(snapshot: Snapshot) -> tuple[Snapshot, Plan]:
    return snapshot, decide(snapshot)


def problems_of(given: Mapping[str, Any]) -> tuple[Problem, ...]:
    return _problems(json.dumps(given))


@cache
def _problems(text: str) -> tuple[Problem, ...]:
    return tuple(validate(json.loads(text)))


def children(stage: tuple[Snapshot, Plan]) -> dict[str, dict[str, Any]]:
    objects = build(*stage)
    return {
        f"{one['kind']}/{one['metadata']['labels']['app.kubernetes.io/component']}": one
        for one in objects
    }
