"""PURE: whether image features are GPU tensors on their way to the language model."""

from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.serving_plan import ServingPlan
from mm_api.trtllm_layout import reads_gpu_tensors


def are_gpu_tensors(engine: EngineManifest, serving: ServingPlan) -> bool:
    """Return whether the encoder of a serving pod hands features over on the GPU.

    Of the Reference engine where it computes there. Of TensorRT-LLM without a pinned pool only:
    with one, a full CUDA pool gives out features that were never copied (Triton 2.51), and its
    backend refuses no request for that.
    """
    plan = engine.plan
    if plan.engine.vision is None:
        return False
    if plan.engine.traits.runs_checkpoints:
        return serving.device == "CUDA"
    build = plan.trtllm
    return (
        plan.engine.traits.builds_engines
        and build is not None
        and reads_gpu_tensors(build.version, build.ranks)
        and serving.pools.pinned_bytes == 0
    )
