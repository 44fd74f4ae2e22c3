"""What differs between the backends in images: the one Protocol behind which each is."""

from collections.abc import Iterator
from typing import Protocol

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.engine_manifest import EngineManifest
from mm_runtime.engine_build.step import Step
from mm_runtime.gateway.backends.backend import GatewayBackend
from mm_runtime.launch.options import ServeOptions
from mm_runtime.launch.server import Server


class Backend(GatewayBackend, Protocol):
    """One backend: its build, its server, and the gateway's part of it."""

    def steps(self, plan: BuildPlan, /) -> Iterator[Step]:
        """Yield the steps of a build, in order.

        Raises:
            PermanentError: a plan whose parts do not fit together.
        """
        ...

    def prepare_server(self, options: ServeOptions, engine: EngineManifest, /) -> Server:
        """Write what the server reads; return how it is run.

        Raises:
            PermanentError: this image cannot serve the engine.
        """
        ...
