"""Plans of what was measured on a GPU: never below what nvidia-smi counted, nor 10 % above it.

`bench/gpu/memory.py` measured them; its result holds the specs and the facts.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from mm_api.documents.model_facts import ModelFacts
from mm_operator.model import EnginePlan
from mm_operator.plan.engine.plan import plan_engine
from mm_operator.plan.engine.tables import gpu_of
from mm_operator.plan.engine.target import Inputs
from support.model_documents import merged
from support.models import spec_of

RESULT = Path(__file__).parents[4] / "bench" / "gpu" / "results" / "memory.json"
SIZES: dict[str, dict[str, Any]] = json.loads(RESULT.read_text(encoding="utf-8"))["sizes"]
MOST = 1.1


def planned_bytes(size: dict[str, Any]) -> int:
    plan = plan_engine(
        Inputs(
            model="bench",
            spec=spec_of(merged(size["spec"], {"runtime": {"gpu": {"count": 1}}})),
            facts=ModelFacts.model_validate(size["facts"]),
            builder_version="1",
            gpu=gpu_of("h100-80gb"),
        )
    )
    assert isinstance(plan, EnginePlan), plan
    return plan.memory.per_gpu[0].total_bytes


@pytest.mark.parametrize("name", SIZES)
def test_the_plan_holds_what_was_counted(name: str) -> None:
    """Contexts, weights, caches, graphs and activations, at the fullest moment of each process."""
    counted = SIZES[name]["counted_bytes"]

    assert counted <= planned_bytes(SIZES[name]) <= MOST * counted


@pytest.mark.parametrize("name", SIZES)
def test_the_page_says_what_is_planned(name: str) -> None:
    """docs/design/gpu-results.md is made from the result's own number."""
    assert SIZES[name]["planned_bytes"] == planned_bytes(SIZES[name])


def test_three_sizes_were_measured() -> None:
    assert {name.partition(":")[0] for name in SIZES} == {"tiny", "1.3b", "7b"}
