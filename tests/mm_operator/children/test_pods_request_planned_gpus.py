"""Pods of engines request the GPUs of the plan, and for the product that it was made for."""

from typing import Any

import pytest

from mm_api.documents.model_facts import ModelFacts
from mm_operator.children.hardware import building_gpu, building_requests, encoder_gpu, planned_gpu
from support.cases import cases
from support.families.pipeline import plan_of
from support.gpu_nodes import H100, L4
from support.model_configs import facts_of, inputs_of, planned_engine, reference_inputs
from support.models import spec_of, tiny_facts

TWO_RANKS = planned_engine(inputs_of("llava", {"parallelism": {"tensor": 2}}))
PYTORCH = planned_engine(inputs_of("qwen2-vl", {"backend": "PyTorch"}, version="1.0.0"))
REFERENCE = planned_engine(reference_inputs(tiny_facts()))


@cases(
    "requested plan serving building",
    {
        "two-ranks": ({}, TWO_RANKS, (2, H100), (1, H100)),
        "as-written": ({"count": 2, "product": L4}, TWO_RANKS, (2, L4), (2, L4)),
        "nothing-to-build": ({}, PYTORCH, (1, H100), (0, None)),
        "no-gpu": ({}, REFERENCE, (0, None), (0, None)),
        "no-plan": ({}, None, (0, None), (0, None)),
    },
)
def test_gpus(
    requested: dict[str, Any],
    plan: Any,
    serving: tuple[int, str | None],
    building: tuple[int, str | None],
) -> None:
    """Serving takes a GPU a rank; a build one, because ranks are built in turn."""
    spec = spec_of({"runtime": {"gpu": requested}, "build": {"gpu": requested}})
    pods, job = planned_gpu(spec, plan), building_gpu(spec, plan)

    assert (serving, building) == ((pods.count, pods.product), (job.count, job.product))


@cases(
    "plan expected",
    {
        "one-of-the-planned-product": (TWO_RANKS, (1, H100)),
        "none-on-the-reference-engine": (REFERENCE, (0, None)),
    },
)
def test_encoders_in_pods_of_their_own_take_one_gpu(
    plan: Any, expected: tuple[int, str | None]
) -> None:
    """However many ranks the language model has; what is requested of its pods is not theirs."""
    gpu = encoder_gpu(spec_of({"runtime": {"gpu": {"count": 2}}}), plan)
    assert expected == (gpu.count, gpu.product)


@cases(
    "facts expected",
    {
        "export-takes-more": ({"weight_bytes": 1 << 20}, "1024Mi"),
        # 512 MiB of libraries, the file, its 120 million weights in float32, and a short cache.
        "computed-in-another-dtype": (
            {"weight_bytes": 240 << 20, "dtype": "bfloat16", "parameters": 120 << 20},
            "1234Mi",
        ),
        "computed-as-stored": (
            {"weight_bytes": 240 << 20, "dtype": "float32", "parameters": 60 << 20},
            "1024Mi",
        ),
        "more-than-the-export": (
            {"weight_bytes": 600 << 20, "dtype": "bfloat16", "parameters": 300 << 20},
            "2314Mi",
        ),
    },
)
def test_a_build_sets_aside_what_its_evaluation_takes(facts: dict[str, Any], expected: str) -> None:
    """The build loads all of a text-to-text engine to compute its answers."""
    plan = plan_of(facts_of("t5").model_copy(update=facts))
    assert expected == building_requests(plan)["memory"]


MEASURED = {87: 1295, 334: 2832, 1166: 8464}
"""MiB of a vision half in float32 -> peak of its export, of CLIP towers."""


@pytest.mark.parametrize("half", MEASURED)
def test_a_build_sets_aside_what_its_export_takes(half: int) -> None:
    """Not less than was measured of a tower of this size, and hardly more."""
    parameters = tiny_facts().parameters + (half << 20) // 4
    plan = plan_of(tiny_facts(parameters=parameters, weight_bytes=300 << 20))
    requested = int(building_requests(plan)["memory"].removesuffix("Mi"))
    assert 1 <= requested / MEASURED[half] <= 1.1


@cases(
    "facts expected",
    {
        "the-least": (tiny_facts(), "1024Mi"),
        # 752 MiB, 6.75 times 324 million weights in float32, and two matrices of 4096 x 32,064.
        "llava-7b": (facts_of("llava"), "10110Mi"),
    },
)
def test_exports_are_of_the_vision_half_alone(facts: ModelFacts, expected: str) -> None:
    """Layers of the language model are not loaded, its embedding and output matrix are."""
    plan = plan_of(facts)
    engine = plan.engine.model_copy(update={"evaluation": "Off"})
    assert expected == building_requests(plan.model_copy(update={"engine": engine}))["memory"]


def test_the_evaluation_loads_all_weights() -> None:
    """512 MiB, 7.06 billion weights as they are stored, and the cache of one sequence."""
    assert building_requests(plan_of(facts_of("llava")))["memory"] == "14225Mi"


def test_engines_pass_through_host_memory() -> None:
    gpus, host = TWO_RANKS.memory.per_gpu, TWO_RANKS.memory.host

    assert host.total_bytes == sum(gpu.weights_bytes + gpu.vision_engine_bytes for gpu in gpus)
