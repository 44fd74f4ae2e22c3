"""The verdict: does the fullest GPU hold its terms, and if not, what is the largest of them?"""

from mm_api.documents.model_plan import Fit, GpuMemory, MemoryPlan

TERMS = {
    "weights_bytes": "weights",
    "vision_engine_bytes": "vision engine",
    "vision_activation_bytes": "vision activations",
    "prompt_table_bytes": "prompt table",
    "cuda_pool_bytes": "CUDA pool",
    "kv_cache_bytes": "KV cache",
    "context_bytes": "CUDA contexts",
    "other_bytes": "buffers",
}
"""Field of `GpuMemory` -> what people call it."""


def fullest(memory: MemoryPlan) -> GpuMemory:
    """Return the GPU that has the least room."""
    return max(memory.per_gpu, key=lambda gpu: gpu.total_bytes - gpu.gpu_memory_bytes)


def verdict(memory: MemoryPlan) -> Fit:
    """Return the verdict in numbers and in one sentence."""
    gpu = fullest(memory)
    short = max(0, gpu.total_bytes - gpu.gpu_memory_bytes)
    field = max(TERMS, key=lambda name: getattr(gpu, name))
    largest, size = TERMS[field], getattr(gpu, field)
    if short:
        message = (
            f"{short:,} bytes are missing on GPU {gpu.rank}: {gpu.total_bytes:,} are needed and "
            f"{gpu.gpu_memory_bytes:,} there; the largest term is {largest} with {size:,}"
        )
    else:
        message = (
            f"{gpu.total_bytes:,} of {gpu.gpu_memory_bytes:,} bytes are needed on the fullest GPU;"
            f" the KV cache holds {memory.full_length_sequences} full sequences at the least"
        )
    return Fit(
        verdict="DoesNotFit" if short else "Fits",
        short_bytes=short,
        largest_term=largest,
        message=message,
    )
