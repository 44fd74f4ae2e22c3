"""`vision.engine: TensorRT` on backend Reference: built for the planned GPU, on it."""

from dataclasses import replace

from mm_operator.children.hardware import building_gpu
from support.model_configs import inputs_of, planned_engine

SPEC = {"runtime": {"gpu": {"count": 1}}, "vision": {"engine": "TensorRT"}}


def test_the_plan_names_the_gpu_and_the_build_has_it() -> None:
    """Another GPU is another engine; half of the weights' bytes are planned in half precision."""
    inputs = inputs_of("qwen2-vl", {"backend": "Reference"}, **SPEC)
    planned = planned_engine(inputs)
    vision = planned.build_plan.engine.vision
    assert (vision.tensorrt.dtype, vision.tensorrt.compute_capability) == ("float16", "9.0")
    assert building_gpu(inputs.spec, planned).count == 1
    other = planned_engine(inputs_of("qwen2-vl", {"backend": "Reference"}, gpu="l40s-48gb", **SPEC))
    assert planned.build_plan.fingerprint != other.build_plan.fingerprint
    torch = inputs.spec.model_copy(
        update={"vision": inputs.spec.vision.model_copy(update={"engine": "Torch"})}
    )
    beside = planned_engine(replace(inputs, spec=torch)).memory.per_gpu[0]
    assert 2 * planned.memory.per_gpu[0].vision_engine_bytes == beside.vision_engine_bytes
