"""Pipeline parallelism: each stage has its layers, the first the embedding, the last the head."""

import pytest

from mm_api.families import FAMILIES
from mm_operator.plan.engine.plan import family_of
from mm_operator.plan.engine.weights import Split, stacks
from support.model_configs import WITH_ENGINES, facts_of, planned

SPLIT = tuple(name for name, family in FAMILIES.items() if family.trtllm.pipeline_parallel)


@pytest.mark.parametrize("family", SPLIT)
@pytest.mark.parametrize("quantization", [None, "INT8WeightOnly"])
def test_stages_hold_the_model_together(family: str, quantization: str | None) -> None:
    (stack,) = stacks(facts_of(family), family_of(family))
    sizes = {"dtype_bytes": 2, "quantization": quantization}
    complete = stack.rank_bytes(Split(), **sizes)
    parts = [stack.rank_bytes(Split(1, 2, stage), **sizes) for stage in (0, 1)]

    assert sum(parts) == complete + 2 * stack.replicated


@pytest.mark.parametrize("family", [name for name in SPLIT if name in WITH_ENGINES])
def test_commands_make_every_stage(family: str) -> None:
    plan = planned(family, {"parallelism": {"tensor": 2, "pipeline": 2}})
    assert plan.errors == []
    convert, build = plan.convert.argv, plan.engines[0].argv

    assert convert[convert.index("--tp_size") :][:4] == ["--tp_size", "2", "--pp_size", "2"]
    assert build[build.index("--workers") + 1] == "4"
    assert plan.build_plan.trtllm.ranks == 4


def test_memory_is_that_of_a_stage() -> None:
    """Four GPUs; cache and weights are split both ways, the vision half is on the first GPU."""
    one, four = planned("llava"), planned("llava", {"parallelism": {"tensor": 2, "pipeline": 2}})
    gpus = four.memory.per_gpu

    assert [gpu.rank for gpu in gpus] == [0, 1, 2, 3]
    assert one.memory.kv_bytes_per_token == 4 * four.memory.kv_bytes_per_token
    assert [gpu.vision_engine_bytes > 0 for gpu in gpus] == [True, False, False, False]
    assert gpus[0].weights_bytes == gpus[1].weights_bytes
    assert gpus[2].weights_bytes == gpus[3].weights_bytes
    assert any("have not been run" in warning.message for warning in four.warnings)
