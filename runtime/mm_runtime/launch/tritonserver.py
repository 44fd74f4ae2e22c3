"""tritonserver as the supervisor's server: backends Reference and TensorRT."""

import json
import logging
import math
import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.server_state import Role
from mm_runtime.errors import PermanentError
from mm_runtime.launch import health
from mm_runtime.launch.arguments import (
    ServerOptions,
    server_environment,
    tracing_arguments,
    world_argv,
)
from mm_runtime.launch.backends import NATIVE, Installation, copy_backends, find_installation
from mm_runtime.launch.exposition import free_port
from mm_runtime.launch.health import InFlight, State
from mm_runtime.launch.options import ServeOptions
from mm_runtime.launch.server import Command, MetricsPage, report_locked_memory
from mm_runtime.repository.layout import layout
from mm_runtime.repository.write import model_sources, write_repository
from mm_runtime.settings import EXIT_SECONDS

log = logging.getLogger(__name__)

SHM = Path("/dev/shm")  # noqa: S108 (the kernel's own, not a temporary file)
"""Where a killed server leaves regions behind: 1 MiB and more for each model."""

INDEX = "adapters.json"
"""Written by the build step `lora`: names, ids, and the engines that an adapter has parts for."""


@dataclass(frozen=True, slots=True)
class TritonServer:
    """One server, or one for each rank under mpirun."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    options: ServerOptions
    restarts: bool
    """Whether nothing outlives it.

    mpirun puts each rank into a process group of its own, and ranks outlive an mpirun that was
    killed: they would keep their GPUs and ports, so the container has to end with it.
    """

    name: str = "tritonserver"

    @property
    def command(self) -> Command:
        return Command(self.argv, self.environment)

    @property
    def metrics(self) -> MetricsPage:
        return MetricsPage(self.options.ports.metrics)

    def state(self) -> State:
        return health.probe(self.options.ports)

    def is_alive(self) -> bool:
        """Probe its liveness; one that hangs is ended by the kubelet."""
        return health.is_alive(self.options.ports)

    def in_flight(self) -> InFlight | None:
        return health.in_flight(self.options.ports)

    def clean(self) -> None:
        remove_regions(self.options.shm_prefix)


def remove_regions(prefix: str, directory: Path = SHM) -> int:
    """Remove every region with this server's prefix; return how many there were.

    Only when no server of this prefix runs: it would lose the memory its models talk through.
    """
    removed = 0
    for path in directory.glob(f"{prefix}*"):
        path.unlink(missing_ok=True)
        removed += 1
    if removed:
        log.info("removed %d shared-memory regions of an earlier server", removed)
    return removed


def _check_pools(options: ServeOptions) -> None:
    """Refuse a pinned pool where features are GPU tensors: see `mm_runtime.serving.generate`.

    With one, a request whose features find the CUDA pool full is answered without them.
    """
    if options.serving.device == "CUDA" and options.pools.pinned_bytes:
        raise PermanentError(
            f"{options.serving_path} has a pinned memory pool of {options.pools.pinned_bytes:,}"
            " bytes with device CUDA; expected 0, because Triton would answer requests from"
            " features that it never copied once its CUDA pool is full. Set"
            " spec.runtime.memoryPools.pinned to Auto or 0."
        )


def prepare_triton(options: ServeOptions, engine: EngineManifest) -> TritonServer:
    """Write the model repository; return its server; PermanentError: this image cannot serve it."""
    installation = find_installation()
    needs_native = engine.plan.engine.traits.builds_engines and options.role is Role.SERVER
    if needs_native and installation.trtllm_backend is None:
        raise PermanentError(
            f"This image has no TensorRT-LLM backend (no {NATIVE} beside {installation.backend});"
            " expected one made from NVIDIA's tritonserver image with TensorRT-LLM: set"
            " spec.runtime.image."
        )
    _check_pools(options)
    folder = options.folder
    files = layout(
        engine,
        options.serving,
        engine_dir=options.manifest.parent.absolute(),
        serving_plan=options.serving_path.absolute(),
        adapters=folder / "adapters",
        sources=model_sources(),
        role=options.role,
    )
    link_adapters(options.manifest.parent / "lora", folder / "adapters")
    build = engine.plan.trtllm if options.role is Role.SERVER else None
    ranks = build.ranks if build else 1
    report_locked_memory(ranks)
    return triton_of(files, installation, options, ranks)


def link_adapters(built: Path, folder: Path) -> int:
    """Make `folder` hold one link for each adapter, named by its id; return how many.

    The backend's `lora_prefetch_dir` wants `ID/model.lora_{weights,config}.npy` and skips folders
    whose names are no numbers (tensorrt_llm/batch_manager/peftCacheManager.cpp). It fills the
    language model's cache, so an encoder's part is not linked.

    `built`: the engine's folder `lora`; one that does not exist means no adapters.
    """
    shutil.rmtree(folder, ignore_errors=True)
    if not (built / INDEX).is_file():
        return 0
    folder.mkdir(parents=True)
    links = {
        str(entry["uid"]): built / entry["name"] / part
        for entry in json.loads((built / INDEX).read_bytes())
        for part in ("llm", "decoder")
        if part in entry.get("engines", ())
    }
    for uid, target in links.items():
        (folder / uid).symlink_to(target.absolute(), target_is_directory=True)
    return len(links)


def triton_of(
    files: Mapping[str, str], installation: Installation, options: ServeOptions, ranks: int = 1
) -> TritonServer:
    """Write a repository; return its server, or one for each rank under mpirun."""
    repository, backends = options.repository.absolute(), options.folder / "backends"
    encoders = options.serving.encoders
    server = ServerOptions(
        repository=repository,
        backends=backends,
        ports=replace(options.ports, metrics=free_port()),
        pools=options.pools,
        exit_seconds=math.floor(EXIT_SECONDS / 2),
        secret=secrets.token_hex(),
        encoder_key=encoders.key if options.role is Role.ENCODER and encoders else "",
        tracing=tracing_arguments(os.environ),
    )
    write_repository(repository, files)
    copy_backends(installation, backends)
    return TritonServer(
        argv=world_argv(installation, server, ranks),
        environment=server_environment(installation, os.environ),
        options=server,
        restarts=ranks == 1,
    )
