"""A plan is one document: it round-trips, it is the same every time, and it is recorded."""

from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
import yaml

from mm_api.documents.model_plan import ModelPlan
from mm_ctl.commands.plan import as_commands
from support.cases import cases
from support.golden import Golden
from support.model_configs import MODELS, ON_PYTORCH, facts_of, planned, planned_on_pytorch


@pytest.mark.parametrize("family", MODELS)
def test_round_trip(family: str) -> None:
    plan = planned(family, gpu="l4-24gb")

    assert ModelPlan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize("family", MODELS)
def test_plans_are_as_recorded(family: str, golden: Golden) -> None:
    # The documents for Jobs and pods say the same again.
    content = planned(family).model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude={"build_plan", "serving_plan"}
    )
    recorded = yaml.safe_dump(content, sort_keys=False, width=100)
    if family in ON_PYTORCH:
        script = as_commands(planned_on_pytorch(family)) + "\n"
        recorded += "commandsOnPyTorch: |\n" + indent(script, "  ")

    golden.check(f"{family}.yaml", recorded)


def fingerprint(engine: dict[str, Any] | None = None, **more: Any) -> str | None:
    return planned("llava", engine, **more).fingerprint


@cases(
    "more",
    {
        "replicas": {"replicas": 5},
        "concurrency": {"runtime": {"maxConcurrency": 5}},
        "default-written-out": {"engine": {"maxBatchSize": 8}},
        "planned-written-out": {"engine": {"dtype": "float16", "maxSeqLen": 2560}},
        "kv-fraction": {"engine": {"kvCache": {"freeGpuMemoryFraction": "0.5"}}},
        "gateway": {"gateway": {"maxImagePixels": 5}},
    },
)
def test_what_changes_no_engine_changes_no_fingerprint(more: dict[str, Any]) -> None:
    assert fingerprint(**more) == fingerprint()


@cases(
    "more",
    {
        "batch": {"engine": {"maxBatchSize": 4}},
        "dtype": {"engine": {"dtype": "bfloat16"}},
        "quantization": {"engine": {"quantization": "FP8"}},
        "tensor-parallel": {"engine": {"parallelism": {"tensor": 2}}},
        "plugin": {"engine": {"plugins": {"use_fused_mlp": "enable"}}},
        "version": {"version": "1.0.0"},
        "gpu": {"gpu": "a100-80gb"},
        "source": {
            "facts": facts_of("llava").model_copy(update={"source_digest": "sha256:" + "1" * 64})
        },
    },
)
def test_what_changes_an_engine_changes_the_fingerprint(more: dict[str, Any]) -> None:
    assert fingerprint(**more) != fingerprint()


def test_the_golden_files_are_the_families() -> None:
    recorded = {path.stem for path in (Path(__file__).parent / "golden").glob("*.yaml")}

    assert recorded == set(MODELS)


@pytest.mark.parametrize("family", MODELS)
def test_same_inputs_same_plan(family: str) -> None:
    assert planned(family).to_json() == planned(family).to_json()
