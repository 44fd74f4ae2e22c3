"""PURE: argument vector and environment of tritonserver, and of mpirun around several of them."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath

from mm_api.documents.serving_plan import MemoryPools
from mm_api.hosts import bracketed
from mm_edge.tracing import traces_url
from mm_runtime.base.grpc_channel import ENCODER_KEY
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

    secret: str
    """Opens `CLOSED`; random, another one for each start of the container."""

    encoder_key: str = ""
    """What servers show with each request of an encoder; empty: nothing."""

    tracing: tuple[str, ...] = ()

    @property
    def shm_prefix(self) -> str:
        """Beginning of the names of this server's regions in /dev/shm.

        The same after a restart of the container, so that a killed server's regions can be removed,
        and different for two servers of one machine.
        """
        digest = hashlib.sha256(str(self.repository).encode()).hexdigest()
        return f"mm{digest[:SHM_PREFIX_DIGITS]}_"


CLOSED = ("model-repository", "shared-memory", "trace", "logging", "statistics")
"""Triton's names of the protocols that need a key: the first four change what other clients get, or
files of the server; statistics disclose other clients' requests."""

CLOSED_HEADER = "mm-closed"
"""Header of that key, which no client has."""

PORTS_A_RANK = 3
"""HTTP, gRPC and metrics: each rank's follow the one's before it, as upstream's launcher does."""


def world_argv(installation: Installation, options: ServerOptions, ranks: int) -> tuple[str, ...]:
    """Return the command line of one server, or of mpirun around one for each rank.

    Ranks above 0 load the language model only and answer no client. mpirun ends all of them when
    one dies, and its end is the container's. tensorrtllm_backend's `launch_triton_server.py` builds
    the same command, and is not used because it exits at once.
    """
    if ranks == 1:
        return server_argv(installation, options)
    words = ["mpirun", "--allow-run-as-root", "--oversubscribe"]
    for rank in range(ranks):
        # Every server of a pod has its regions in one /dev/shm.
        words += ["-n", "1", *server_argv(installation, _of_rank(options, rank), rank), ":"]
    return tuple(words[:-1])


def _of_rank(options: ServerOptions, rank: int) -> ServerOptions:
    ports, step = options.ports, rank * PORTS_A_RANK
    moved = replace(
        ports, http=ports.http + step, grpc=ports.grpc + step, metrics=ports.metrics + step
    )
    return replace(options, ports=moved)


def server_argv(
    installation: Installation, options: ServerOptions, rank: int = 0
) -> tuple[str, ...]:
    """Return the command line. `--exit-on-error` stays on: a broken model ends the server."""
    ports, pools = options.ports, options.pools
    prefix = f"{options.shm_prefix}{rank}_" if rank else options.shm_prefix
    own = (
        ("--model-control-mode=explicit", "--load-model=tensorrt_llm")
        if rank
        else (f"--cuda-memory-pool-byte-size=0:{pools.cuda_bytes}",)
    )
    python = {
        "shm-region-prefix-name": prefix,
        "stub-timeout-seconds": str(STUB_SECONDS),
    }
    return (
        str(installation.server),
        f"--model-repository={options.repository}",
        *own,
        f"--backend-directory={options.backends}",
        f"--cache-directory={installation.caches}",
        f"--http-address={_for_http(ports.address)}",
        f"--http-port={ports.http}",
        f"--grpc-address={bracketed(ports.grpc_address or ports.address)}",
        f"--grpc-port={ports.grpc}",
        # Scraped by the supervisor only, which serves them with its own.
        "--metrics-address=127.0.0.1",
        f"--metrics-port={ports.metrics}",
        "--reuse-http-port=false",
        "--reuse-grpc-port=false",
        f"--pinned-memory-pool-byte-size={pools.pinned_bytes}",
        f"--exit-timeout-secs={options.exit_seconds}",
        "--disable-auto-complete-config",  # the configurations are complete; a typo must not heal
        "--metrics-config=summary_latencies=true",
        *_restrictions(options),
        *options.tracing,
        *(f"--backend-config=python,{key}={value}" for key, value in python.items()),
    )


def tracing_arguments(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return what makes spans of each request that comes with a trace, and of next to no other.

    Whether one is recorded is decided before: Triton 2.51 does not read that flag of a trace.
    """
    if not (url := traces_url(environment)):
        return ()
    service = environment.get("OTEL_SERVICE_NAME", "multimodal-server")
    own = (f"opentelemetry,url={url}", f"opentelemetry,resource=service.name={service}")
    of_all = ("mode=opentelemetry", "level=TIMESTAMPS", f"rate={(1 << 31) - 1}")
    return tuple(f"--trace-config={one}" for one in (*of_all, *own))


def _for_http(address: str) -> str:
    return f"ipv6:{address}" if ":" in address else address


def _restrictions(options: ServerOptions) -> tuple[str, ...]:
    """Return who may do more than infer: no client may change, measure or inspect the server.

    Its supervisor needs health and metrics, the gateway inference. Triton looks for the key in a
    header of its own name, for gRPC with `triton-grpc-protocol-` before it.
    """
    closed = f"{','.join(CLOSED)}:{CLOSED_HEADER}={options.secret}"
    words = [f"--http-restricted-api={closed}", f"--grpc-restricted-protocol={closed}"]
    if options.encoder_key:
        words.append(f"--grpc-restricted-protocol=inference:{ENCODER_KEY}={options.encoder_key}")
    return tuple(words)


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
        "PMIX_MCA_gds": "hash",  # mpirun's shared-memory store fails in containers
    }
