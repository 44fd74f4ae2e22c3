"""PURE: argument vector and environment of tritonserver."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from mm_api.documents.serving_plan import MemoryPools
from mm_runtime.launch.backends import Installation
from mm_runtime.settings import STUB_SECONDS, Ports

SHM_PREFIX_DIGITS = 10


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What one server needs to know."""

    repository: PurePath
    backends: PurePath
    ports: Ports
    pools: MemoryPools
    exit_seconds: int
    """How long the server waits for running requests after SIGTERM. The drain before it has seen
    none, so this only bounds a model that hangs."""

    @property
    def shm_prefix(self) -> str:
        """Beginning of the names of this server's regions in /dev/shm.

        The same after a restart of the container, so that a killed server's regions can be removed,
        and different for two servers of one machine.
        """
        digest = hashlib.sha256(str(self.repository).encode()).hexdigest()
        return f"mm{digest[:SHM_PREFIX_DIGITS]}_"


def server_argv(installation: Installation, options: ServerOptions) -> tuple[str, ...]:
    """Return the command line. `--exit-on-error` stays on: a broken model ends the server."""
    ports, pools = options.ports, options.pools
    python = {
        "shm-region-prefix-name": options.shm_prefix,
        "stub-timeout-seconds": str(STUB_SECONDS),
    }
    return (
        str(installation.server),
        f"--model-repository={options.repository}",
        f"--backend-directory={options.backends}",
        f"--cache-directory={installation.caches}",
        f"--http-address={ports.address}",
        f"--http-port={ports.http}",
        f"--grpc-address={ports.address}",
        f"--grpc-port={ports.grpc}",
        f"--metrics-address={ports.address}",
        f"--metrics-port={ports.metrics}",
        "--reuse-http-port=false",
        "--reuse-grpc-port=false",
        f"--pinned-memory-pool-byte-size={pools.pinned_bytes}",
        f"--cuda-memory-pool-byte-size=0:{pools.cuda_bytes}",
        f"--exit-timeout-secs={options.exit_seconds}",
        "--disable-auto-complete-config",  # the configurations are complete; a typo must not heal
        "--metrics-config=summary_latencies=true",
        *(f"--backend-config=python,{key}={value}" for key, value in python.items()),
    )


def server_environment(installation: Installation, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment: what is inherited, with libraries and programs in the right order."""
    libraries = [str(installation.libraries), str(installation.python_libraries)]
    libraries += [path for path in inherited.get("LD_LIBRARY_PATH", "").split(":") if path]
    programs = [str(installation.python_bin), inherited.get("PATH", "/usr/local/bin:/usr/bin:/bin")]
    return {
        **inherited,
        "LD_LIBRARY_PATH": ":".join(libraries),
        "PATH": ":".join(programs),
        "HF_HUB_OFFLINE": "1",  # the engine is the only source: a pod must not reach out
        "TRANSFORMERS_OFFLINE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",  # the root file system is read-only
        "PYTHONUNBUFFERED": "1",
        "TOKENIZERS_PARALLELISM": "false",  # it warns after every fork otherwise
    }
