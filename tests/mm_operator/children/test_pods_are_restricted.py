"""Every pod keeps the rules of Pod Security `restricted` and writes to its own volumes only."""

from typing import Any

import pytest

from support.staged import children, fresh, inspected

PODS = {
    "inspect": children(fresh())["Job/inspect"]["spec"]["template"]["spec"],
    "build": children(inspected())["Job/build"]["spec"]["template"]["spec"],
    "serving": children(inspected(built=True))["Deployment/server"]["spec"]["template"]["spec"],
}
CONTAINERS = [
    pytest.param(container, id=f"{name}-{container['name']}")
    for name, pod in PODS.items()
    for container in (*pod.get("initContainers", ()), *pod["containers"])
]


@pytest.mark.parametrize("container", CONTAINERS)
def test_container_security(container: dict[str, Any]) -> None:
    expected = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
    }
    assert expected == container["securityContext"]


@pytest.mark.parametrize("container", CONTAINERS)
def test_container_has_a_place_to_write(container: dict[str, Any]) -> None:
    """/tmp is a volume: libraries expect it."""
    assert "/tmp" in {mount["mountPath"] for mount in container["volumeMounts"]}


@pytest.mark.parametrize("pod", [pytest.param(pod, id=name) for name, pod in PODS.items()])
def test_pod_security(pod: dict[str, Any]) -> None:
    context = pod["securityContext"]
    assert (
        context["runAsUser"],
        context["runAsNonRoot"],
        context["seccompProfile"],
        pod["automountServiceAccountToken"],
    ) == (65532, True, {"type": "RuntimeDefault"}, False)


def test_source_is_mounted_read_only() -> None:
    volumes = {volume["name"]: volume for volume in PODS["build"]["volumes"]}
    assert (volumes["source"]["persistentVolumeClaim"]) == {
        "claimName": "checkpoints",
        "readOnly": True,
    }


def test_one_claim_for_source_and_store_is_one_volume() -> None:
    """A claim may not be attached read-only and writable to one pod; the mount stays read-only."""
    changes = {"build": {"store": {"persistentVolumeClaim": {"claimName": "checkpoints"}}}}
    pod = children(inspected(changes))["Job/build"]["spec"]["template"]["spec"]
    claims = [one["name"] for one in pod["volumes"] if "persistentVolumeClaim" in one]
    mounts = {one["mountPath"]: one for one in pod["containers"][0]["volumeMounts"]}
    assert (claims, (mounts["/mnt/source"]["name"], mounts["/mnt/source"]["readOnly"])) == (
        ["store"],
        ("store", True),
    )
