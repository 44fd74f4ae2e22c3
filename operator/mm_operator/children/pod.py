"""What every pod has in common: it passes Pod Security `restricted` with a read-only root."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mm_api.contract import TERMINATION_LOG, Command, Flag
from mm_api.v1alpha1 import Resources, RuntimeGpu, Scheduling, UserIds, quantity
from mm_operator.children.metadata import Manifest
from mm_operator.digests import plain
from mm_operator.plan.engine.gpu_resource import GPU, product_label

_MIB = 1 << 20

CLAIM: Final = "gpu"

USER_ID = 65532
"""The images' user; the group owns volumes, so that the user may write the store."""

_USER_NAME = "multimodal"

WITHOUT_SIDECAR: Final[Mapping[str, Mapping[str, str]]] = {
    "labels": {"kuma.io/sidecar-injection": "disabled", "sidecar.istio.io/inject": "false"},
    "annotations": {
        "consul.hashicorp.com/connect-inject": "false",
        "linkerd.io/inject": "disabled",
        "sidecar.istio.io/inject": "false",
    },
}
"""Metadata of pods of Jobs: a mesh's proxy that never ends would keep their Job from ending. Labels
are what Istio and Kuma read today, annotations what older Istio, Linkerd and Consul do."""


SHARE_PROCESSES = True
"""For pods of Jobs. The kernel ignores SIGTERM for a container's first process until it has a
handler, and Python takes a second to get there: an evicted build ran on for its full 30 s of
grace. With a shared namespace the pause process is the first one."""


def pod_security(user_ids: UserIds = "Fixed") -> Manifest:
    """Return the pod's security context; OpenShift gives each namespace users of its own."""
    fixed = {"runAsUser": USER_ID, "runAsGroup": USER_ID, "fsGroup": USER_ID}
    return {
        "runAsNonRoot": True,
        **(fixed if user_ids == "Fixed" else {}),
        # Volumes of millions of files are not walked again when the root's owner is right.
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> Manifest:
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
    }


def environment() -> list[Manifest]:
    """Return the environment of every container: the only place to write is /tmp.

    Images of NVIDIA have no entry for the user in /etc/passwd, none has one for a user of the
    namespace's. torch then dies with `getpwuid(): uid not found`, unless the environment
    has the name and places for caches.
    """
    variables = {
        "HOME": "/tmp",  # noqa: S108  # an emptyDir of the pod's own
        "USER": _USER_NAME,
        "LOGNAME": _USER_NAME,
        "TORCHINDUCTOR_CACHE_DIR": "/tmp/torchinductor",  # noqa: S108
        "TRITON_CACHE_DIR": "/tmp/triton",  # noqa: S108
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return [{"name": name, "value": value} for name, value in variables.items()]


def flags(values: Mapping[str, str]) -> list[str]:
    return [word for pair in values.items() for word in pair]


def container(
    name: str,
    image: str,
    arguments: Sequence[str],
    *,
    variables: Sequence[Manifest] = (),
    mounts: Sequence[Manifest],
    reports: bool = True,
    **more: Any,
) -> Manifest:
    """Return a container with `mm-runtime`, and /tmp; if it reports, with a termination log."""
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": [Command.PROGRAM],
        "args": [*arguments, *([Flag.TERMINATION_LOG, TERMINATION_LOG] if reports else [])],
        "env": [*environment(), *variables],
        "securityContext": container_security(),
        **({"terminationMessagePath": TERMINATION_LOG} if reports else {}),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            *mounts,
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108  # an emptyDir of the pod's own
        ],
        **more,
    }


def placement(scheduling: Scheduling, gpu: RuntimeGpu) -> Manifest:
    """Return where the pod may run; a GPU product becomes a node label, unless a claim names it."""
    spec: Manifest = {}
    selector = dict(scheduling.node_selector)
    if gpu.product and gpu.device_class_name is None:
        selector[product_label(gpu.resource_name or GPU)] = gpu.product
    if selector:
        spec["nodeSelector"] = selector
    if scheduling.tolerations:
        spec["tolerations"] = [plain(toleration) for toleration in scheduling.tolerations]
    if scheduling.affinity:
        spec["affinity"] = scheduling.affinity
    if scheduling.priority_class_name:
        spec["priorityClassName"] = scheduling.priority_class_name
    if scheduling.runtime_class_name:
        spec["runtimeClassName"] = scheduling.runtime_class_name
    return spec


def compute(
    resources: Resources,
    *,
    gpu: RuntimeGpu,
    defaults: dict[str, str],
    memory_limit: int | None = None,
) -> Manifest:
    """Return a container's resources.

    `defaults`: requests for what the spec leaves open; a limit of the spec's replaces its default,
    because Kubernetes takes a limit as the request when there is none. `memory_limit`: bytes, for a
    spec that states none; never below the spec's own request.
    """
    limits = {name: str(value) for name, value in resources.limits.items()}
    if resources.memory_limit is None:
        limits.pop("memory", None)
    requests = {name: value for name, value in defaults.items() if name not in limits}
    requests |= {name: str(value) for name, value in resources.requests.items()}
    if memory_limit is not None and "memory" not in resources.limits:
        most = max(memory_limit, quantity.bytes_of(resources.requests.get("memory", 0)))
        limits["memory"] = mebibytes(most)
    claims = [{"name": CLAIM}] if gpu.count and gpu.device_class_name else []
    if gpu.count and not claims:
        limits[gpu.resource_name or GPU] = str(gpu.count)
    parts = (("requests", requests), ("limits", limits), ("claims", claims))
    return {key: values for key, values in parts if values}


def mebibytes(count: int) -> str:
    """Return bytes as a quantity, rounded up."""
    return f"{-(-count // _MIB)}Mi"


def small(requests: Mapping[str, str], memory_limit: str, *, beside: Resources) -> Manifest:
    """Return the resources of a container whose needs are known.

    `requests`: what it sets aside; cpu no more than its limit. `beside`: resources of the container
    that it works for, whose limit of cpu it has: a quota on limits.cpu refuses pods in which a
    container has none.
    """
    limit = beside.limits.get("cpu")
    if limit is None:
        return {"requests": dict(requests), "limits": {"memory": memory_limit}}
    cpu = min(requests["cpu"], str(limit), key=quantity.number_of)
    return {
        "requests": {**requests, "cpu": cpu},
        "limits": {"cpu": str(limit), "memory": memory_limit},
    }


def scratch(name: str) -> Manifest:
    return {"name": name, "emptyDir": {}}


def file_of(volume: str, config_map: str, key: str, file: str) -> Manifest:
    """Return a volume with one file, which is an entry of a ConfigMap."""
    source = {"name": config_map, "items": [{"key": key, "path": file}]}
    return {"name": volume, "configMap": source}


def pull_secrets(names: list[str]) -> Manifest:
    return {"imagePullSecrets": [{"name": name} for name in names]} if names else {}
