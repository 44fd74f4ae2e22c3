"""vLLM, unmodified: its own image serves the staged checkpoint by the plan's command."""

from typing import TYPE_CHECKING

from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.server_state import Role
from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.backends.openai_server.steps import staging_steps
from mm_runtime.errors import PermanentError
from mm_runtime.gateway.backends.backend import Capabilities
from mm_runtime.launch.options import ServeOptions
from mm_runtime.launch.server import Server
from mm_runtime.launch.tritonserver import prepare_triton
from mm_runtime.serving.directory import EngineDirectory

if TYPE_CHECKING:  # numpy, templates and images: supervisors and builds need none of them
    from mm_runtime.gateway.backends.engine import ServedEngine, Servers


class Vllm:
    """Implements `mm_runtime.backends.Backend`; clients take 0.2 s to import."""

    steps = staticmethod(staging_steps)

    def prepare_server(self, options: ServeOptions, engine: EngineManifest, /) -> Server:
        """Return Triton for a disaggregated encoder; refuse a server: nothing of ours is in it."""
        if options.role is Role.ENCODER:
            return prepare_triton(options, engine)
        raise PermanentError(
            "Backend VLLM is served by an image of vLLM, whose command is in the serving plan"
            " (vllmServe.argv): `mm-runtime serve` starts no server of it."
        )

    def capabilities(self, _manifest: EngineManifest, _serving: ServingPlan, /) -> Capabilities:
        """Return what vLLM does: all there is of conversations."""
        from mm_runtime.backends.vllm.forms import VllmForms  # noqa: PLC0415

        return Capabilities(VllmForms(), wraps_questions=False, cuts_audio=True, reads_files=True)

    def open_engine(
        self, directory: EngineDirectory, serving: ServingPlan, servers: "Servers", /
    ) -> "ServedEngine":
        from mm_runtime.backends.vllm.client import open_vllm  # noqa: PLC0415

        return open_vllm(directory, serving, servers.openai)
