"""TensorRT-LLM's engines behind its own backend of Triton."""

from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.backends.tensorrt.steps import trtllm_steps
from mm_runtime.backends.triton_server import OnTriton
from mm_runtime.gateway.backends.backend import Capabilities

_NO_TABLE = (
    "The model's engine has no tokenizer's table, which TensorRT-LLM keeps answers to a form by. "
    "Set spec.engine.guidedDecoding to Auto. Engines of encoder-decoders, with beams, and of "
    "TensorRT-LLM before 1.2 have none."
)


class TensorRT(OnTriton):
    """Implements `mm_runtime.backends.Backend`."""

    steps = staticmethod(trtllm_steps)

    def capabilities(self, manifest: EngineManifest, _serving: ServingPlan, /) -> Capabilities:
        """Return what the backend of Triton does: forms where the engine has a table for them."""
        from mm_runtime.backends.trtllm.forms import TrtllmForms, forms_of_version  # noqa: PLC0415

        build = manifest.plan.trtllm
        if build is None or build.tokenizer_info is None:
            return Capabilities(TrtllmForms(_NO_TABLE))
        return Capabilities(forms_of_version(build.version))
