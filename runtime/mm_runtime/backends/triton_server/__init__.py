"""What backends that tritonserver serves have in common."""

from typing import TYPE_CHECKING

from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.launch.tritonserver import prepare_triton
from mm_runtime.serving.directory import EngineDirectory

if TYPE_CHECKING:  # numpy, templates and images: supervisors and builds need none of them
    from mm_runtime.gateway.backends.engine import ServedEngine, Servers


class OnTriton:
    """A part of `mm_runtime.backends.Backend`."""

    prepare_server = staticmethod(prepare_triton)

    def open_engine(
        self, directory: EngineDirectory, serving: ServingPlan, servers: "Servers", /
    ) -> "ServedEngine":
        """Return the client of Triton's gRPC, which takes 0.2 s to import."""
        from mm_runtime.backends.triton_server.engine import open_triton  # noqa: PLC0415

        return open_triton(directory, serving, servers.triton)
