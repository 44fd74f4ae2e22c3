"""The Reference engine: the checkpoint behind models of Triton's Python backend."""

from collections.abc import Iterator

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.backends.triton_server import OnTriton
from mm_runtime.engine_build.checkpoint_steps import (
    checkpoint_steps,
    evaluation_steps,
    fetch_adapters_step,
    tokenizer_steps,
    vision_steps,
    weights_steps,
)
from mm_runtime.engine_build.step import Step
from mm_runtime.gateway.backends.backend import Capabilities


def _steps(plan: BuildPlan) -> Iterator[Step]:
    yield from checkpoint_steps(plan, "engine/llm", "engine/processor")
    if plan.lora:
        yield fetch_adapters_step(plan, "engine/adapters")
    yield from tokenizer_steps(plan, "engine/processor")
    if plan.engine.vision is None:
        yield from weights_steps(plan, "engine/llm")
    else:
        yield from vision_steps(plan, "engine/llm")
    yield from evaluation_steps(plan, "engine/llm")


class Reference(OnTriton):
    """Implements `mm_runtime.backends.Backend`."""

    steps = staticmethod(_steps)

    def capabilities(self, _manifest: EngineManifest, _serving: ServingPlan, /) -> Capabilities:
        """Return what the engine does: all there is."""
        from mm_runtime.backends.reference.forms import ReferenceForms  # noqa: PLC0415

        return Capabilities(ReferenceForms(), times_audio=True)
