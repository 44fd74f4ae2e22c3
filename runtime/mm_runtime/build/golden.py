"""PURE: which engines are asked once they are built, so that pods must answer the same."""

from mm_api.documents.build_plan import BuildPlan

MOST_WEIGHT_BYTES = 256 << 20
"""Of an engine that is asked: to load it takes a second, and no more memory than its export did."""


def is_asked(plan: BuildPlan) -> bool:
    """Return whether the build can ask the engine: it runs without a GPU.

    TensorRT's engines and what trtllm-serve loads need the GPU and the library that serve them, and
    nothing else computes what they compute.
    """
    engine, facts = plan.engine, plan.facts
    if engine.backend != "Reference" or facts.weight_bytes > MOST_WEIGHT_BYTES:
        return False
    if engine.vision is not None:
        return engine.vision.engine in {"ONNXRuntime", "Torch"}
    return facts.encoder is not None
