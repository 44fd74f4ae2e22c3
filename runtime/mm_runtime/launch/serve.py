"""`mm-runtime serve`: verify the engine, write the repository, run tritonserver, drain it."""

import logging
import math
import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.serving_plan import GpuSharing, MemoryPools, ServingPlan
from mm_runtime.build import manifest as manifests
from mm_runtime.errors import ExitCode, PermanentError, ServerFailedError
from mm_runtime.launch.adapters import link_adapters
from mm_runtime.launch.arguments import ServerOptions, server_environment, world_argv
from mm_runtime.launch.backends import NATIVE, copy_backends, find_installation
from mm_runtime.launch.exposition import Exposition, free_port
from mm_runtime.launch.phases import drain, wait_until_ready
from mm_runtime.launch.process import ChildProcess
from mm_runtime.launch.restarts import WINDOW_SECONDS, Crashes
from mm_runtime.launch.shared_memory import remove_regions
from mm_runtime.launch.sharing import Sharing, shared
from mm_runtime.launch.stopping import StopSignal
from mm_runtime.repository.layout import layout
from mm_runtime.repository.values import Role
from mm_runtime.repository.write import model_sources, write_repository
from mm_runtime.settings import (
    DRAIN_MARGIN_SECONDS,
    EXIT_SECONDS,
    GATEWAY_PORT,
    STARTUP_SECONDS,
    Ports,
)

log = logging.getLogger(__name__)

SERVED = frozenset({"Reference", "TensorRT"})
"""Backends that this version starts a server for."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What the command line says."""

    manifest: Path
    serving_path: Path
    serving: ServingPlan
    repository: Path
    ports: Ports
    startup_seconds: float = STARTUP_SECONDS
    gateway_port: int = GATEWAY_PORT
    """Port of the gateway in the same pod, which is the last to close; 0 when there is none."""

    role: Role = Role.SERVER

    @property
    def pools(self) -> MemoryPools:
        """What the plan gives to a pod of this role.

        Raises:
            PermanentError: an encoder's pod of a plan without encoders.
        """
        if self.role is Role.SERVER:
            return self.serving.pools
        if self.serving.encoders is None:
            raise PermanentError(
                f"{self.serving_path} has no encoders in pods of their own; expected a plan of a"
                " model with spec.vision.placement Disaggregated."
            )
        return self.serving.encoders.pools

    @property
    def sharing(self) -> GpuSharing | None:
        """How processes share a GPU; an encoder's pod has one process that uses it."""
        return self.serving.sharing if self.role is Role.SERVER else None


def serve(options: ServeOptions) -> int:
    """Serve one engine until SIGTERM; return the exit code.

    Raises:
        EngineCorruptError: a file of the engine is damaged.
        PermanentError: the engine is not the one the serving plan means.
        ServerFailedError: tritonserver was not ready in time, or died too often.
    """
    with StopSignal() as stop:
        engine = _verified_engine(options)
        server = _prepare(options, engine)
        model = options.serving.model
        ranks = _ranks(engine) if options.role is Role.SERVER else 1
        with Exposition(options.ports, server.ports, options.pools, model) as told:
            _supervise(_Job(options, server, ranks), told, stop)
    return ExitCode.OK


@dataclass(frozen=True, slots=True)
class _Job:
    """What is run, the same at every start."""

    options: ServeOptions
    server: ServerOptions
    ranks: int


def _supervise(job: _Job, told: Exposition, stop: StopSignal) -> None:
    """Run tritonserver until a signal comes; start it again when it dies, as often as allowed."""
    crashes = Crashes()
    while not stop.is_set:
        # A daemon for each start: what a killed client leaves in the old one stays with it.
        folder = job.server.repository.parent / "mps"
        with shared(job.options.sharing, Path(folder)) as sharing:
            code = _run_once(job, told, sharing, stop)
        if code is None:
            return
        crashes = crashes.after(time.monotonic())
        if crashes.exhausted:
            raise ServerFailedError(
                f"tritonserver ended by itself {crashes.count} times within"
                f" {WINDOW_SECONDS:.0f} s, now with exit code {code}; the container ends."
            )
        log.warning(
            "tritonserver ended by itself with exit code %d; it is started again in %.0f s",
            code,
            crashes.delay_seconds,
        )
        told.restarted()
        stop.wait(crashes.delay_seconds)


def _run_once(job: _Job, told: Exposition, sharing: Sharing, stop: StopSignal) -> int | None:
    """Run tritonserver once; return its exit code if it died after it was ready, else None.

    Raises:
        ServerFailedError: it was not ready in time, or ended before.
    """
    options, server = job.options, job.server
    remove_regions(server.shm_prefix)
    installation = find_installation()
    child = ChildProcess(
        world_argv(installation, server, job.ranks),
        server_environment(installation, os.environ) | sharing.environment,
        told.watch(_forward),
    )
    code: int | None = None
    try:
        if wait_until_ready(child, server.ports, stop, seconds=options.startup_seconds):
            sharing.check()
            told.shares(sharing.mode, sharing.problem)
            code = child.wait(None, stop)
            if code is None:
                drain(
                    child,
                    server.ports,
                    stop,
                    gateway_port=options.gateway_port,
                    seconds=options.serving.gateway.request_timeout_seconds + DRAIN_MARGIN_SECONDS,
                )
    finally:
        last = child.stop(EXIT_SECONDS)
        remove_regions(server.shm_prefix)
        log.info("tritonserver ended with exit code %d", last)
    return code


def _verified_engine(options: ServeOptions) -> EngineManifest:
    engine = manifests.read(options.manifest)
    if engine.fingerprint != options.serving.fingerprint:
        raise PermanentError(
            f"{options.manifest} is engine {engine.fingerprint[:16]}; the serving plan is for"
            f" {options.serving.fingerprint[:16]}. The wrong store or path is mounted."
        )
    if engine.plan.engine.backend != options.serving.backend:
        raise PermanentError(
            f"{options.manifest} is for backend {engine.plan.engine.backend}; the serving plan says"
            f" {options.serving.backend}."
        )
    if engine.plan.engine.backend not in SERVED:
        raise PermanentError(
            f"This image does not serve engines of backend {engine.plan.engine.backend}; expected"
            f" {' or '.join(sorted(SERVED))}. Set spec.runtime.image to a version that does, or"
            " spec.engine.backend to Reference."
        )
    began = time.monotonic()
    manifests.verify(options.manifest.parent, engine)
    log.info(
        "engine %s verified: %d files in %.1f s",
        engine.fingerprint[:16],
        len(engine.files),
        time.monotonic() - began,
    )
    return engine


def _ranks(engine: EngineManifest) -> int:
    return engine.plan.trtllm.ranks if engine.plan.trtllm else 1


def _prepare(options: ServeOptions, engine: EngineManifest) -> ServerOptions:
    installation = find_installation()
    needs_native = engine.plan.engine.backend == "TensorRT" and options.role is Role.SERVER
    if needs_native and installation.native is None:
        raise PermanentError(
            f"This image has no TensorRT-LLM backend (no {NATIVE} beside {installation.backend});"
            " expected one made from NVIDIA's tritonserver image with TensorRT-LLM: set"
            " spec.runtime.image."
        )
    repository = options.repository.absolute()
    server = ServerOptions(
        repository=repository,
        backends=repository.parent / "backends",
        ports=replace(options.ports, metrics=free_port()),
        pools=options.pools,
        exit_seconds=math.floor(EXIT_SECONDS / 2),
    )
    files = layout(
        engine,
        options.serving,
        engine_dir=options.manifest.parent.absolute(),
        serving_plan=options.serving_path.absolute(),
        adapters=repository.parent / "adapters",
        sources=model_sources(),
        role=options.role,
    )
    write_repository(repository, files)
    link_adapters(options.manifest.parent / "lora", repository.parent / "adapters")
    copy_backends(installation, repository.parent / "backends")
    return server


def _forward(line: str) -> None:
    """Pass a line of tritonserver on: it has a level and a time of its own."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
