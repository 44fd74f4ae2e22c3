"""The two containers of a serving pod.

`server` is a sidecar: the kubelet starts the gateway only when Triton is up, and stops Triton only
when the gateway has finished its streams.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mm_api.contract import (
    AUTH_FILE,
    AUTH_MOUNT,
    CONFIG_MOUNT,
    FEATURES_MOUNT,
    GATEWAY_LIVE,
    GATEWAY_PORT,
    GATEWAY_READY,
    GRPC_PORT,
    HTTP_PORT,
    METRICS_PORT,
    REPOSITORY,
    SERVER_LIVE,
    SERVER_READY,
    SERVING_FILE,
    WORK_MOUNT,
    Command,
    Flag,
)
from mm_api.v1alpha1 import MultimodalModelSpec, Resources, RuntimeGpu
from mm_operator.children import pod, volumes
from mm_operator.children.metadata import Manifest
from mm_operator.plan.engine.container_memory import PROCESS_BYTES
from mm_operator.plan.rollout import drain_seconds

PRE_STOP_SECONDS = 5
"""Load balancers learn of the pod's end in this time; without it 16 to 20 of 250 requests failed
during a rolling update, with it 0 of 1,300."""

SERVER: Final = "server"

_LOOPBACK, _EVERYWHERE = "127.0.0.1", "0.0.0.0"  # noqa: S104

_STARTUP_MARGIN_SECONDS = 60
"""A start that takes too long is ended by the server's supervisor, which says why, this long before
the kubelet would kill both."""

_SERVER_CPU = "500m"
_GATEWAY_REQUESTS = {"cpu": "100m", "memory": "352Mi"}
"""At rest: 192 MiB for the gateway, 80 for each of its two decoders."""


@dataclass(frozen=True, slots=True)
class Listening:
    """What of a server is reached from outside of its pod."""

    page: str
    """Name of the port of metrics, state and health, which scrapers know."""

    ports: tuple[str, ...] = ()
    """Names of Triton's own ports; those that are not here listen on loopback."""

    @property
    def container_ports(self) -> list[Manifest]:
        tritons = {"triton-http": HTTP_PORT, "triton-grpc": GRPC_PORT}
        return [
            *(_port(name, tritons[name]) for name in self.ports),
            _port(self.page, METRICS_PORT),
        ]


def build_server(
    spec: MultimodalModelSpec,
    *,
    image: str,
    manifest: str,
    gpu: RuntimeGpu,
    host_bytes: int,
    start_seconds: int,
    memory_limit: int | None,
    process_bytes: int = PROCESS_BYTES,
    resources: Resources | None = None,
    role: Sequence[str] = (),
    listening: Listening | None = None,
) -> Manifest:
    """Return the container that runs Triton, or trtllm-serve.

    `host_bytes`: what the plan's terms take; `process_bytes`: the processes on top of it.
    `start_seconds`: what it gets to start before it is started again. `memory_limit`: where the
    spec states none; None: any. `resources`, `listening`: None: as of the language model's pods.
    `role`: arguments of a server that does not answer complete requests.
    """
    listening = listening or server_listening(spec)
    memory = pod.mebibytes(host_bytes + process_bytes)
    flags = {
        Flag.MANIFEST: manifest,
        Flag.SERVING: f"{CONFIG_MOUNT}/{SERVING_FILE}",
        Flag.REPOSITORY: REPOSITORY,
        Flag.ADDRESS: _EVERYWHERE if "triton-http" in listening.ports else _LOOPBACK,
        Flag.GRPC_ADDRESS: _EVERYWHERE if "triton-grpc" in listening.ports else _LOOPBACK,
        Flag.PAGE_ADDRESS: _EVERYWHERE,  # probes and scrapers come from outside the pod
        Flag.HTTP_PORT: str(HTTP_PORT),
        Flag.GRPC_PORT: str(GRPC_PORT),
        Flag.METRICS_PORT: str(METRICS_PORT),
        Flag.STARTUP_TIMEOUT: str(start_seconds - _STARTUP_MARGIN_SECONDS),
    }
    return pod.container(
        SERVER,
        image,
        [Command.SERVE, *pod.flags(flags), *role],
        mounts=[
            volumes.serving_mount(),
            volumes.config_mount(),
            {"name": "work", "mountPath": WORK_MOUNT},
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108  # Triton's regions
        ],
        restartPolicy="Always",
        ports=listening.container_ports,
        resources=pod.compute(
            spec.runtime.resources if resources is None else resources,
            gpu=gpu,
            defaults={"cpu": _SERVER_CPU, "memory": memory},
            memory_limit=memory_limit,
        ),
        **_server_probes(listening.page, start_seconds),
        lifecycle={"preStop": {"sleep": {"seconds": PRE_STOP_SECONDS}}},
    )


def server_listening(spec: MultimodalModelSpec) -> Listening:
    """Return what others than the gateway reach: the page, and Triton where it is published."""
    exposed = spec.runtime.triton.expose
    return Listening("triton-metrics", ("triton-http", "triton-grpc") if exposed else ())


def _server_probes(page: str, start_seconds: int) -> Manifest:
    """Return the probes. The server listens on loopback: its supervisor answers for it."""
    return {
        "startupProbe": _probe(SERVER_READY, page, 1, start_seconds),
        "livenessProbe": _probe(SERVER_LIVE, page, 10, 6),
        "readinessProbe": _probe(SERVER_READY, page, 2, 3),
    }


def build_gateway(
    spec: MultimodalModelSpec,
    *,
    image: str,
    manifest: str,
    memory_bytes: int,
    server_page: str | None = None,
    features: bool = False,
) -> Manifest:
    """Return the container with the OpenAI endpoint.

    `manifest`: path of the engine's manifest inside the pod. `memory_bytes`: what the gateway holds
    itself to; the limit where the spec states none. `server_page`: where the server's
    metrics are; None: on its supervisor's page. `features`: it hands features of images over.
    """
    arguments: list[str] = [Flag.SERVER_METRICS, server_page] if server_page else []
    mounts: list[Manifest] = []
    if spec.gateway.auth_secret_ref:
        arguments += [Flag.AUTH_TOKEN_FILE, f"{AUTH_MOUNT}/{AUTH_FILE}"]
        mounts = [{"name": "auth", "mountPath": AUTH_MOUNT, "readOnly": True}]
    mounts += [FEATURES] if features else []
    flags = {
        Flag.MANIFEST: manifest,
        Flag.SERVING: f"{CONFIG_MOUNT}/{SERVING_FILE}",
        Flag.TRITON: f"{_LOOPBACK}:{GRPC_PORT}",
        Flag.ADDRESS: _EVERYWHERE,  # clients come from outside the pod
        Flag.PORT: str(GATEWAY_PORT),
    }
    return pod.container(
        "gateway",
        image,
        [Command.GATEWAY, *pod.flags(flags), *arguments],
        mounts=[volumes.serving_mount(), volumes.config_mount(), *mounts],
        reports=False,
        ports=[_port("http", GATEWAY_PORT)],
        resources=pod.compute(
            spec.gateway.resources,
            gpu=RuntimeGpu(),
            defaults=_GATEWAY_REQUESTS,
            memory_limit=memory_bytes,
        ),
        startupProbe=_probe(GATEWAY_LIVE, "http", 1, 120),
        livenessProbe=_probe(GATEWAY_LIVE, "http", 10, 6),
        readinessProbe=_probe(GATEWAY_READY, "http", 1, 3),
        lifecycle={"preStop": {"sleep": {"seconds": PRE_STOP_SECONDS}}},
    )


def auth_volumes(spec: MultimodalModelSpec) -> list[Manifest]:
    secret = spec.gateway.auth_secret_ref
    if secret is None:
        return []
    items = [{"key": secret.key, "path": AUTH_FILE}]
    return [{"name": "auth", "secret": {"secretName": secret.name, "items": items}}]


FEATURES: Final = {"name": "features", "mountPath": FEATURES_MOUNT}
"""Gateway and stock server alone have it: who writes there decides what the model sees."""

_FOLDERS_BYTES = 16 << 20
"""Room for folders that vLLM makes for images without features; a full volume would end it."""


def features_volumes(most_bytes: int) -> list[Manifest]:
    """Return the volume in which features are handed over, if they are: the pod's own memory."""
    if not most_bytes:
        return []
    limit = str(most_bytes + _FOLDERS_BYTES)
    return [{"name": "features", "emptyDir": {"medium": "Memory", "sizeLimit": limit}}]


def grace_seconds(spec: MultimodalModelSpec) -> int:
    """Return how long a pod may take to end: the preStop delay, the drain, and Triton's exit."""
    return PRE_STOP_SECONDS + drain_seconds(spec) + EXIT_SECONDS


EXIT_SECONDS = 15
"""Triton took 4 to 5.6 s to exit when idle; three times that."""


def _port(name: str, number: int) -> Manifest:
    return {"name": name, "containerPort": number, "protocol": "TCP"}


def _probe(path: str, port: str, period: int, failures: int) -> Manifest:
    return {
        "httpGet": {"path": path, "port": port, "scheme": "HTTP"},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }
