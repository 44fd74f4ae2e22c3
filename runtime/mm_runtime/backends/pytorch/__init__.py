"""TensorRT-LLM on PyTorch: checkpoints that trtllm-serve loads itself."""

from typing import TYPE_CHECKING

from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.backends.openai_server.steps import staging_steps
from mm_runtime.backends.pytorch.server import prepare_trtllm_serve
from mm_runtime.gateway.backends.backend import Capabilities
from mm_runtime.serving.directory import EngineDirectory

if TYPE_CHECKING:  # numpy, templates and images: supervisors and builds need none of them
    from mm_runtime.gateway.backends.engine import ServedEngine, Servers


class PyTorch:
    """Implements `mm_runtime.backends.Backend`; clients take 0.2 s to import."""

    steps = staticmethod(staging_steps)
    prepare_server = staticmethod(prepare_trtllm_serve)

    def capabilities(self, _manifest: EngineManifest, serving: ServingPlan, /) -> Capabilities:
        """Return what trtllm-serve does, which differs by version."""
        from mm_runtime.backends.pytorch.client import capabilities_of  # noqa: PLC0415

        return capabilities_of(serving)

    def open_engine(
        self, directory: EngineDirectory, serving: ServingPlan, servers: "Servers", /
    ) -> "ServedEngine":
        from mm_runtime.backends.pytorch.client import open_trtllm_serve  # noqa: PLC0415

        return open_trtllm_serve(directory, serving, servers.openai)
