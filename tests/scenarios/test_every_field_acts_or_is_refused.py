"""Each field of the resource changes what is applied, or is refused by its name, on each backend.

A field that nothing acts on looks as if it did: a GPU is taken, and nothing is as requested.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mm_operator.children.all import build
from mm_operator.model import Outcome
from mm_operator.status.derive import derive
from support.field_samples import Sample, leaves, sample_of
from support.gpu_nodes import H100, node
from support.model_configs import facts_of
from support.model_documents import at, document, merged
from support.staged import fresh, inspected, problems_of

BASES: Mapping[str, Mapping[str, Any]] = {
    "Reference": {},
    "ReferenceOnGpu": {"runtime": {"gpu": {"count": 1}}, "vision": {"engine": "Torch"}},
    "TensorRT": {"engine": {"backend": "TensorRT"}, "build": {"trtllmVersion": "0.20.0"}},
    "PyTorch": {"engine": {"backend": "PyTorch"}, "build": {"trtllmVersion": "1.2.1"}},
    "VLLM": {"engine": {"backend": "VLLM"}},
}
GPU_NODES = (node("a", H100),)
FAMILY = {
    "Reference": None,
    "ReferenceOnGpu": None,
    "TensorRT": "llava",
    "PyTorch": "qwen2-vl",
    "VLLM": "qwen2-5-vl",
}

ELSEWHERE: Mapping[str, str] = {
    "autoscaling.": "tests/mm_operator/scaling",
    "vision.autoscaling.": "tests/mm_operator/scaling/test_encoders_follow_image_work.py",
    "replicas": "tests/mm_operator/cluster",
    "build.store.gcAfter": "tests/mm_operator/plan/test_stores_are_swept.py",
    "build.retries": "tests/mm_operator/plan/test_jobs_are_followed.py",
    "rollout.requireEvaluation": "tests/mm_operator/status/test_statuses_are_as_recorded.py",
    "runtime.gpu.slot": "tests/mm_operator/autoscaling/test_models_take_turns_on_a_gpu.py",
    "rollout.canary.": "tests/mm_operator/plan/test_bad_versions_never_pass_a_step.py",
    "engine.backend": "tests/mm_operator/plan/test_gpu_backends_are_planned.py",
}
"""Fields that act later than the objects of a first rollout: where that is shown."""

DIGEST = re.compile(r"\b(?=[0-9]*[a-f])[0-9a-f]{8,}\b")
"""Names and fingerprints change with every spec, and show nothing. Numbers have no letter."""

FIELDS = {
    path: info for path, info in leaves() if not any(path.startswith(one) for one in ELSEWHERE)
}


def _stages(backend: str, spec: Mapping[str, Any], *, any_node: bool) -> tuple[str, ...]:
    """Return what is applied and reported at each stage of a model's life, digests masked."""
    return _stages_of(backend, json.dumps(spec), any_node=any_node)


@cache
def _stages_of(backend: str, text: str, *, any_node: bool) -> tuple[str, ...]:
    """Return the stages of a spec as JSON; most fields are compared with the same one."""
    family = FAMILY[backend]
    given: dict[str, Any] = {"gpu_nodes": GPU_NODES if any_node else (), "refused": None}
    if family:
        given["facts"] = facts_of(family)
    spec = json.loads(text)
    stages = [fresh(spec), inspected(spec, **given), inspected(spec, built=True, **given)]
    reported = []
    for snapshot, plan in stages:
        status = derive(snapshot, plan, Outcome())
        planned = [one for one in status["conditions"] if one["type"] == "Planned"]
        reported.append(json.dumps([build(snapshot, plan), planned], sort_keys=True, default=str))
    return tuple(DIGEST.sub("*", one) for one in reported)


def _planned(stage: str) -> dict[str, Any]:
    [condition] = json.loads(stage)[1]
    return dict(condition)


@pytest.mark.parametrize(
    "backend", [pytest.param(one, marks=pytest.mark.xdist_group(f"fields-{one}")) for one in BASES]
)
@pytest.mark.parametrize("path", FIELDS)
def test_a_field_acts_or_is_refused(path: str, backend: str) -> None:
    """The plan, the objects or the refusal: one of them shows the value."""
    sample: Sample = sample_of(path, FIELDS[path], backend.removesuffix("OnGpu"))
    without = merged(BASES[backend], sample.beside)
    having = merged(without, at(path, sample.value))
    if problems_of(document(without)):
        return  # what the field belongs to is refused, and has a row of its own here
    problems = problems_of(document(having))
    if problems:
        assert {f"spec.{path}"} == {one.path for one in problems}, problems
        return
    # Where a node says what its GPU is, nothing that the spec says of the GPU counts.
    any_node = not path.endswith((".gpu.memory", ".gpu.computeCapability"))
    before, after = (_stages(backend, spec, any_node=any_node) for spec in (without, having))
    refusal = _planned(after[-1])
    if refusal["status"] == "False" and _planned(before[-1])["status"] != "False":
        name = path.rpartition(".")[2]
        message = refusal["message"]
        assert name in message or str(sample.value) in message, message
        return
    assert _planned(before[-1])["status"] == "True", _planned(before[-1])["message"]
    assert before != after, f"nothing acts on {path} with backend {backend}"


@pytest.mark.parametrize("path", ELSEWHERE)
def test_what_acts_later_is_shown_elsewhere(path: str) -> None:
    """The list names fields and tests that exist."""
    assert (Path(__file__).parents[2] / ELSEWHERE[path]).exists()
    assert [one for one, _ in leaves() if one.startswith(path)]
