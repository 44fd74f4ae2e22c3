"""Pods that run the probe program of ``devcluster/pods`` under Pod Security ``restricted``."""

from typing import Any

from mm_devcluster.binaries import ensure_binaries
from mm_devcluster.cluster import ClusterInfo, load_image
from mm_devcluster.images.builtin import PROBE_IMAGE, build_probe_image
from support.clusters import apply, read
from support.eventually import eventually

USER = 65532


def load_probe(cluster: ClusterInfo) -> None:
    load_image(cluster.name, build_probe_image(ensure_binaries(["probe"])["probe"]))


def build_probe_pod(name: str, namespace: str, *arguments: str, **extra: Any) -> dict[str, Any]:
    """Describe a pod that runs one probe command, as a user who is not root."""
    claims: dict[str, str] = extra.pop("volumes", {})
    container = {
        "name": "probe",
        "image": PROBE_IMAGE,
        "imagePullPolicy": "Never",
        "args": list(arguments),
        "resources": extra.pop("resources", {}),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": f"v{index}", "mountPath": path} for index, path in enumerate(claims)
        ],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "runAsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": [
                {"name": f"v{index}", "persistentVolumeClaim": {"claimName": claim}}
                for index, claim in enumerate(claims.values())
            ],
            **extra,
        },
    }


def run_probe(
    cluster: ClusterInfo, name: str, namespace: str, *arguments: str, **extra: Any
) -> dict[str, Any]:
    apply(cluster, build_probe_pod(name, namespace, *arguments, **extra))
    return await_phase(cluster, name, namespace, "Succeeded", "Failed")


def await_phase(cluster: ClusterInfo, name: str, namespace: str, *phases: str) -> dict[str, Any]:
    def pod() -> dict[str, Any] | None:
        found = read(cluster, "pod", name, "-n", namespace)
        return found if found["status"]["phase"] in phases else None

    found = eventually(pod)
    assert found is not None, read(cluster, "pod", name, "-n", namespace)["status"]
    return found
