"""For which engines a build records a golden answer, and the memory that it takes.

The operator requests the memory, the build records the answer.
"""

from mm_api.documents.build_plan import BuildPlan
from mm_api.dtypes import DTYPE_BYTES

MOST_WEIGHT_BYTES = 256 << 20
"""Of an engine with a golden answer: to load it takes seconds."""


_PROCESS_BYTES = 512 << 20
"""Torch and transformers beside the weights: a build of the tiny T5 used 465 MiB of its cgroup, and
was killed at 384. The resident size is 790 MiB: the rest are files that the kernel can drop."""


def records_golden_answer(plan: BuildPlan) -> bool:
    """Return whether the build can run the engine: it needs no GPU.

    TensorRT's engines and what trtllm-serve loads need the GPU and the library that serve them, and
    nothing else computes what they compute.
    """
    engine, facts = plan.engine, plan.facts
    if engine.backend != "Reference" or facts.weight_bytes > MOST_WEIGHT_BYTES:
        return False
    if engine.vision is not None:
        return engine.vision.engine in {"ONNXRuntime", "Torch"}
    return facts.encoder is not None


def golden_answer_bytes(plan: BuildPlan) -> int:
    """Return the build's memory for the golden answer: weights as stored and as computed with."""
    facts, dtype = plan.facts, plan.engine.dtype
    converted = 0 if facts.dtype == dtype else facts.parameters * DTYPE_BYTES[dtype]
    return _PROCESS_BYTES + facts.weight_bytes + converted
