"""vLLM, unmodified: its own image serves the staged checkpoint by the plan's command."""

from typing import TYPE_CHECKING

from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.backends.openai_server.steps import staging_steps
from mm_runtime.errors import PermanentError
from mm_runtime.gateway.backends.backend import Capabilities
from mm_runtime.launch.options import ServeOptions
from mm_runtime.launch.server import Server
from mm_runtime.serving.directory import EngineDirectory

if TYPE_CHECKING:
    from mm_runtime.gateway.backends.engine import ServedEngine, Servers

_NO_CLIENT = "this version's gateway has no client of vLLM"


class Vllm:
    """Implements `mm_runtime.backends.backend.Backend`."""

    steps = staticmethod(staging_steps)

    def prepare_server(self, _options: ServeOptions, _engine: EngineManifest, /) -> Server:
        """Refuse: nothing of ours is in the server's container."""
        raise PermanentError(
            "Backend VLLM is served by an image of vLLM, whose command is in the serving plan"
            " (vllmServe.argv): `mm-runtime serve` starts no server of it."
        )

    def capabilities(self, _manifest: EngineManifest, _serving: ServingPlan, /) -> Capabilities:
        """Refuse: there is no client."""
        raise ValueError(_NO_CLIENT)

    def open_engine(
        self, _directory: EngineDirectory, _serving: ServingPlan, _servers: "Servers", /
    ) -> "ServedEngine":
        """Refuse: there is no client."""
        raise ValueError(_NO_CLIENT)
