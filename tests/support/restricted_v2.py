"""OpenShift's security context constraints restricted-v2, mimicked on an ordinary API server.

OpenShift fills in what a pod leaves out and refuses what is outside of the namespace's ranges; this
policy refuses alone. Rules: the page "Managing security context constraints" of OpenShift's
documentation.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mm_devcluster.cluster import ClusterInfo
from support.clusters import apply, kubectl
from support.eventually import eventually
from support.model_namespace import Api

LABEL = "example.org/scc"
_NAME = "restricted-v2"

_ONE_OF_THEM = " || ".join(
    f"has(volume.{kind})"
    for kind in (
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    )
)

_RULES = {
    "user outside of the namespace's range": (
        "variables.users.all(user, user >= 1000680000 && user < 1000690000)"
    ),
    "fsGroup outside of the namespace's range": (
        "!has(object.spec.securityContext.fsGroup) || "
        "object.spec.securityContext.fsGroup == 1000680000"
    ),
    "volume of another kind": f"object.spec.?volumes.orValue([]).all(volume, {_ONE_OF_THEM})",
    "host namespaces or ports": (
        "!object.spec.?hostNetwork.orValue(false) && !object.spec.?hostPID.orValue(false) && "
        "!object.spec.?hostIPC.orValue(false) && variables.containers.all(one, "
        "one.?ports.orValue([]).all(port, port.?hostPort.orValue(0) == 0))"
    ),
    "privileges": (
        "variables.containers.all(one, !one.?securityContext.?privileged.orValue(false) && "
        "!one.?securityContext.?allowPrivilegeEscalation.orValue(false))"
    ),
    "capabilities are not dropped": (
        "variables.containers.all(one, "
        "one.?securityContext.?capabilities.?drop.orValue([]) == ['ALL'] && "
        "one.?securityContext.?capabilities.?add.orValue([]).all(name, "
        "name == 'NET_BIND_SERVICE'))"
    ),
    "another seccomp profile": (
        "object.spec.?securityContext.?seccompProfile.?type.orValue('RuntimeDefault') == "
        "'RuntimeDefault'"
    ),
}

_POLICY: dict[str, Any] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": _NAME},
    "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["pods"],
                }
            ]
        },
        "variables": [
            {
                "name": "containers",
                "expression": "object.spec.containers + object.spec.?initContainers.orValue([])",
            },
            {
                "name": "users",
                "expression": "(has(object.spec.securityContext.runAsUser) ? "
                "[object.spec.securityContext.runAsUser] : []) + variables.containers"
                ".filter(one, has(one.securityContext.runAsUser))"
                ".map(one, one.securityContext.runAsUser)",
            },
        ],
        "validations": [
            {"expression": expression, "message": f"restricted-v2: {what}"}
            for what, expression in _RULES.items()
        ],
    },
}
_BINDING: dict[str, Any] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": _NAME},
    "spec": {
        "policyName": _NAME,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": {"matchLabels": {LABEL: _NAME}}},
    },
}

_SOMEONE: dict[str, Any] = {
    "securityContext": {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    },
    "containers": [
        {
            "name": "a",
            "image": "b",
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            },
        }
    ],
}


@contextmanager
def restricted_v2(cluster: ClusterInfo, namespace: str) -> Iterator[Api]:
    """Hold a namespace to the constraints while this lasts."""
    api = Api(cluster, namespace)
    try:
        for one in (_POLICY, _BINDING):
            apply(cluster, one)
        kubectl(cluster, "label", "namespace", namespace, f"{LABEL}={_NAME}")
        api.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=60s")
        # A policy acts some time after it was made. Pod Security, which acts before, admits this.
        eventually(
            lambda: "restricted-v2: user" in admitted(api, _SOMEONE),
            showing=lambda: admitted(api, _SOMEONE),
        )
        yield api
    finally:
        for one in (_BINDING, _POLICY):
            kubectl(cluster, "delete", one["kind"], _NAME, "--ignore-not-found")


def admitted(api: Api, pod: dict[str, Any]) -> str:
    """Return what the API server says to a pod that is not kept; accounts that exist alone."""
    spec = {
        name: value
        for name, value in pod.items()
        if name not in {"serviceAccountName", "priorityClassName", "runtimeClassName"}
    }
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec}
    return api.apply(document, "--dry-run=server")
