"""What every pod has in common: it passes Pod Security `restricted` with a read-only root."""

from mm_api.v1alpha1 import Gpu, Resources, Scheduling
from mm_operator.children.metadata import Manifest
from mm_operator.digests import plain
from mm_operator.plan.engine.gpu_resource import GPU, product_label

USER_ID = 65532
"""The images' user; the group owns volumes, so that the user may write the store."""


SHARE_PROCESSES = True
"""For pods of Jobs. The kernel ignores SIGTERM for a container's first process until it has a
handler, and Python takes a second to get there: an evicted build ran on for its full 30 s of
grace. With a shared namespace the pause process is the first one."""


def pod_security() -> Manifest:
    """Return the pod's security context."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER_ID,
        "runAsGroup": USER_ID,
        "fsGroup": USER_ID,
        # Volumes of millions of files are not walked again when the root's owner is right.
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> Manifest:
    """Return a container's security context."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
    }


def environment() -> list[Manifest]:
    """Return the environment of every container: the only place to write is /tmp."""
    return [
        {"name": "HOME", "value": "/tmp"},  # noqa: S108  # an emptyDir of the pod's own
        {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
    ]


def placement(scheduling: Scheduling, gpu: Gpu) -> Manifest:
    """Return where the pod may run; a GPU product becomes a node label."""
    spec: Manifest = {}
    selector = dict(scheduling.node_selector)
    if gpu.product:
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


def compute(resources: Resources, *, gpu: Gpu, defaults: dict[str, str]) -> Manifest:
    """Return a container's resources.

    `defaults` are requests for what the user left open; a limit of the user's replaces its default,
    because Kubernetes takes a limit as the request when there is none.
    """
    limits = {name: str(value) for name, value in resources.limits.items()}
    requests = {name: value for name, value in defaults.items() if name not in limits}
    requests |= {name: str(value) for name, value in resources.requests.items()}
    if gpu.count:
        limits[gpu.resource_name or GPU] = str(gpu.count)
    return {key: values for key, values in (("requests", requests), ("limits", limits)) if values}


def scratch(name: str) -> Manifest:
    """Return an empty directory that goes with the pod."""
    return {"name": name, "emptyDir": {}}


def pull_secrets(names: list[str]) -> Manifest:
    """Return the pod's image pull secrets."""
    return {"imagePullSecrets": [{"name": name} for name in names]} if names else {}
