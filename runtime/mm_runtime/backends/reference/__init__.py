"""The Reference engine: the checkpoint behind models of Triton's Python backend."""

from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.backends.reference.steps import reference_steps
from mm_runtime.backends.triton_server import OnTriton
from mm_runtime.gateway.backends.backend import Capabilities


class Reference(OnTriton):
    """Implements `mm_runtime.backends.backend.Backend`."""

    steps = staticmethod(reference_steps)

    def capabilities(self, _manifest: EngineManifest, _serving: ServingPlan, /) -> Capabilities:
        """Return what the engine does: all there is."""
        from mm_runtime.backends.reference.forms import ReferenceForms  # noqa: PLC0415

        return Capabilities(ReferenceForms(), times_audio=True)
