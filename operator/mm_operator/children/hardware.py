"""What pods request because the plan says so: GPUs, their product, host memory."""

from mm_api.documents.build_plan import BuildPlan, EngineSpec
from mm_api.documents.trtllm_build import CUSTOM_PRODUCT
from mm_api.evaluation import evaluation_cost
from mm_api.families import FAMILIES
from mm_api.v1alpha1 import Gpu, MultimodalModelSpec, RuntimeGpu
from mm_operator.model import EnginePlan
from mm_operator.plan.engine.encoder_memory import export_bytes
from mm_operator.plan.engine.gpu_resource import resource_of

_MIB = 1 << 20
_BUILD_CPU = "500m"
_BUILD_BYTES = 1 << 30
"""At least: exporting and checking the tiny model took below 0.9 GB."""


def planned_gpu(spec: MultimodalModelSpec, engine: EnginePlan | None) -> RuntimeGpu:
    """Return the GPUs of a pod: one for each of its ranks, of the product that was planned for.

    An engine runs on no other product, wherever the scheduler would find room.
    """
    if engine is None or not engine.memory.per_gpu:
        return spec.runtime.gpu
    ranks = len(engine.memory.per_gpu) // spec.engine.parallelism.nodes
    return _of(spec.runtime.gpu, spec, engine, ranks)


def encoder_gpu(spec: MultimodalModelSpec, engine: EnginePlan) -> RuntimeGpu:
    """Return the GPU of an encoder in a pod of its own; one that computes without it has none."""
    encoder = engine.memory.encoder
    if not engine.memory.per_gpu or (encoder is not None and encoder.context_bytes is None):
        return RuntimeGpu()
    gpu, own = _of(spec.runtime.gpu, spec, engine, 1), spec.vision.gpu
    return gpu.model_copy(update={"product": own.product}) if own and own.product else gpu


def building_gpu(spec: MultimodalModelSpec, engine: EnginePlan | None) -> RuntimeGpu:
    """Return the GPUs of a build: one at least, because each rank's engine is built in turn.

    Without commands there is nothing to run on a GPU, but a vision engine of TensorRT.
    """
    if engine is None or not (engine.build_plan.trtllm or builds_tensorrt(engine.build_plan)):
        return _requested(spec.build.gpu, spec)
    return _of(spec.build.gpu, spec, engine, max(1, spec.build.gpu.count))


def building_requests(plan: BuildPlan) -> dict[str, str]:
    """Return what a build sets aside; the spec's own numbers count instead.

    Upstream's converters read the entire checkpoint into host memory. Without
    commands weights are copied file by file, and only the vision half is loaded (in float32, and
    several times over: the exporter). The evaluation follows all of it.
    """
    needed = _BUILD_BYTES
    if plan.trtllm is not None:
        needed += plan.facts.weight_bytes
    elif exports_vision(plan.engine):
        needed = max(needed, export_bytes(plan.facts, FAMILIES[plan.facts.family]))
    if (cost := evaluation_cost(plan.engine, plan.facts)) is not None:
        needed = max(needed, cost.memory_bytes)
    return {"cpu": _BUILD_CPU, "memory": f"{-(-needed // _MIB)}Mi"}


def exports_vision(engine: EngineSpec) -> bool:
    """Return whether a build of ours exports the vision half."""
    exports = engine.traits.runs_checkpoints or engine.disaggregated_encoders is not None
    return exports and engine.vision is not None


def builds_tensorrt(plan: BuildPlan) -> bool:
    return plan.engine.vision is not None and plan.engine.vision.tensorrt is not None


def _of(requested: Gpu, spec: MultimodalModelSpec, engine: EnginePlan, count: int) -> RuntimeGpu:
    product = requested.product
    if product is None and engine.gpu is not None and engine.gpu.product != CUSTOM_PRODUCT:
        product = engine.gpu.product
    changes = {"count": count, "product": product}
    return _requested(requested.model_copy(update=changes), spec)


def _requested(gpu: Gpu, spec: MultimodalModelSpec) -> RuntimeGpu:
    """Return GPUs with the way that the spec requests them: by name, or by claims for devices."""
    fields = {name: getattr(gpu, name) for name in Gpu.model_fields}
    claims = spec.runtime.gpu.device_class_name
    fields |= {
        "resource_name": None if claims else resource_of(spec),
        "device_class_name": claims,
        "device_selectors": spec.runtime.gpu.device_selectors,
    }
    return RuntimeGpu(**fields)
