"""How the pod of a comparison reaches the checkpoint of an engine that does not hold it.

As the builder of that engine does: its address, the credentials by name, the claim, proxy, mirror.
"""

from collections.abc import Mapping
from typing import Any, Final

from mm_api.contract import Flag
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_api.v1alpha1.network import NetworkSpec
from mm_operator.children import sources, volumes
from mm_operator.children.outward import with_network

_VOLUME: Final = "checkpoint"
_MOUNT: Final = "/mnt/checkpoint"
_DISK: Final = "ephemeral-storage"


def needs_source(spec: MultimodalModelSpec) -> bool:
    """Return whether the engine is other than the checkpoint's own files."""
    return spec.engine.traits.builds_engines


def with_source(
    pod: Mapping[str, Any],
    spec: MultimodalModelSpec,
    commit: str | None,
    *,
    network: NetworkSpec,
    disk_bytes: int,
) -> dict[str, Any]:
    """Return a pod of a comparison that fetches the checkpoint to the disk of its node.

    Args:
        pod: as `compare_pod` makes it.
        spec: of the model.
        commit: what a revision of the Hub stood for when it was inspected; None: no such source.
        network: how the builder reaches the source, the operator's settings included.
        disk_bytes: of the node that the pod may use. The scheduler finds a node that has so much.
    """
    before = pod["spec"]
    (own,) = before["containers"]
    attached, mounts = _claim(before["volumes"], spec)
    known = {one["name"] for one in own["env"]}
    wanted = sources.source_environment(spec, network)
    disk = str(disk_bytes)
    resources = own["resources"]
    container = {
        **own,
        "args": [
            *own["args"],
            *(Flag.SOURCE, sources.source_argument(spec, commit)),
            *(Flag.WORK, _MOUNT),
        ],
        "env": [*own["env"], *(one for one in wanted if one["name"] not in known)],
        "resources": {
            "requests": {**resources["requests"], _DISK: disk},
            "limits": {**resources["limits"], _DISK: disk},
        },
        "volumeMounts": [
            *own["volumeMounts"],
            *mounts,
            {"name": _VOLUME, "mountPath": _MOUNT},
        ],
    }
    account = spec.build.service_account_name
    changed = {
        **before,
        **({"serviceAccountName": account} if account else {}),
        "containers": [container],
        "volumes": [
            *before["volumes"],
            *attached,
            {"name": _VOLUME, "emptyDir": {"sizeLimit": disk}},
        ],
    }
    # The bundle is there: every container of the model's pods has it.
    proxy = NetworkSpec(proxy=network.proxy)
    return {**pod, "spec": with_network(changed, proxy, proxied={container["name"]})}


def _claim(
    there: list[dict[str, Any]], spec: MultimodalModelSpec
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the volume and the mount of a claim; no second volume where one pod has it already."""
    claim = volumes.source_claim(spec)
    if not claim:
        return [], []
    same = [
        one["name"]
        for one in there
        if (one.get("persistentVolumeClaim") or {}).get("claimName") == claim
    ]
    if same:
        return [], volumes.source_mounts(spec, same[0])
    source = {"claimName": claim, "readOnly": True}
    volume = {"name": volumes.SOURCE, "persistentVolumeClaim": source}
    return [volume], volumes.source_mounts(spec)
