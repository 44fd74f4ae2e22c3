"""Every pod of the chart keeps to the Pod Security level `restricted`, and can write nothing."""

from typing import Any

import pytest

from support.cases import cases
from support.chart import EXHAUSTIVE, rendered

VALUES = pytest.mark.parametrize(
    "values", [pytest.param({}, id="defaults"), pytest.param(EXHAUSTIVE, id="every-value")]
)


def _pods(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        item["spec"]["template"]["spec"]
        for item in rendered(values)
        if "template" in item.get("spec", {})
    ]


IDS = {"runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532}


@cases(
    "values ids",
    {
        "defaults": ({}, IDS),
        "those-of-the-namespace": ({"userIds": "Namespace"}, {}),
        "every-value": ({**EXHAUSTIVE, "userIds": "Fixed"}, IDS),
    },
)
def test_pods_run_without_rights(values: dict[str, Any], ids: dict[str, int]) -> None:
    """User 65532 or the namespace's, never root, with the runtime's seccomp profile."""
    assert [pod["securityContext"] for pod in _pods(values)] == [
        {"runAsNonRoot": True, **ids, "seccompProfile": {"type": "RuntimeDefault"}}
    ]


@VALUES
def test_containers_have_no_privileges(values: dict[str, Any]) -> None:
    contexts = [
        container["securityContext"] for pod in _pods(values) for container in pod["containers"]
    ]

    assert contexts == [
        {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    ]


@VALUES
def test_volumes_are_empty_directories_with_a_limit(values: dict[str, Any]) -> None:
    """Nothing of the node is mounted, and what can be written is bounded."""
    every = [volume for pod in _pods(values) for volume in pod["volumes"]]
    volumes = [volume for volume in every if "secret" not in volume]

    assert volumes == [{"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}]
