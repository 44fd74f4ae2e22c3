"""Volumes that claims bind, and objects of an entire cluster for the length of a block."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mm_devcluster.cluster import ClusterInfo
from support.clusters import apply, kubectl


def bound(
    name: str, namespace: str, claim: str, *, mode: str = "ReadWriteMany", path: str = ""
) -> tuple[dict[str, Any], dict[str, Any]]:
    size = {"storage": "1Gi"}
    common = {"accessModes": [mode], "storageClassName": ""}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            **common,
            "capacity": size,
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": path or f"/var/lib/nowhere/{name}"},
            "claimRef": {"namespace": namespace, "name": claim},
        },
    }
    request = {"volumeName": name, "resources": {"requests": size}}
    return volume, {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim, "namespace": namespace},
        "spec": {**common, **request},
    }


@contextmanager
def made(cluster: ClusterInfo, *objects: dict[str, Any]) -> Iterator[None]:
    """Apply objects that belong to no namespace; they go at the end, the last one first."""
    try:
        apply(cluster, *objects)
        yield
    finally:
        for one in reversed(objects):
            kind, name = one["kind"], one["metadata"]["name"]
            kubectl(cluster, "delete", kind, name, "--ignore-not-found", "--wait=false")
