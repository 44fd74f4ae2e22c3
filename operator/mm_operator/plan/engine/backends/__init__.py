"""The backends: what only one of them checks, sizes, builds and serves.

Belongs here: one class a backend that fulfils `mm_operator.plan.engine.backend.Backend`. Must not:
hold what two backends share. May import: everything of `mm_operator.plan.engine` but `plan` and
`model_plan`.
"""

from mm_api.conditions import Reason
from mm_operator.errors import SpecError
from mm_operator.plan.engine.backend import Backend
from mm_operator.plan.engine.backends.pytorch import PyTorch
from mm_operator.plan.engine.backends.reference import Reference
from mm_operator.plan.engine.backends.reference_on_gpu import ReferenceOnGpu
from mm_operator.plan.engine.backends.tensorrt import TensorRT
from mm_operator.plan.engine.backends.vllm import Vllm, vllm_version
from mm_operator.plan.engine.backends.vllm_on_cpu import NO_GPU, VllmOnCpu
from mm_operator.plan.engine.gpu import PATH, computes_on_gpu
from mm_operator.plan.engine.request import Inputs
from mm_operator.plan.engine.tables import trtllm_version


def backend_of(inputs: Inputs) -> Backend:
    """Return the spec's backend with GPU and image; SpecError: no GPU, or an unknown image."""
    spec, gpu = inputs.spec, inputs.gpu
    serving = inputs.serving_image or spec.runtime.image
    if spec.engine.backend == "Reference":
        return ReferenceOnGpu(serving, gpu) if gpu else Reference(serving)
    if gpu is None and not computes_on_gpu(spec, serving):
        return VllmOnCpu(NO_GPU, *vllm_version(serving, spec.runtime.vllm_version), serving)
    if gpu is None:
        raise SpecError(Reason.GPU_UNKNOWN, "the GPU is not known: set it to a product", PATH)
    if spec.engine.backend == "VLLM":
        return Vllm(gpu, *vllm_version(serving, spec.runtime.vllm_version), serving)
    version, why = trtllm_version(
        inputs.image or spec.build.image, inputs.given_version or spec.build.trtllm_version, serving
    )
    kind = TensorRT if spec.engine.backend == "TensorRT" else PyTorch
    return kind(gpu, version, why, serving)
