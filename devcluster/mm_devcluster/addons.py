"""What is applied to a fresh cluster: its DNS and its storage class.

Each function returns pairs of (path of the object in the API, manifest), in the order to apply.
"""

from typing import Any

from mm_devcluster.addresses import Network
from mm_devcluster.images.builtin import COREDNS_IMAGE

Addon = tuple[str, dict[str, Any]]

DNS_DEPLOYMENT = "/apis/apps/v1/namespaces/kube-system/deployments/coredns"

# No `forward`: there is no resolver outside that the node could reach, so names outside the
# cluster are refused at once instead of after a time-out.
COREFILE = """\
.:53 {
    errors
    health
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        ttl 5
    }
    cache 5
    reload
}
"""
_META = {"name": "coredns", "namespace": "kube-system"}
_RBAC = "/apis/rbac.authorization.k8s.io/v1"


def storage_addons() -> tuple[Addon, ...]:
    """Return the default storage class, provisioned by the controller-manager itself."""
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "standard",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "kubernetes.io/host-path",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }
    return (("/apis/storage.k8s.io/v1/storageclasses/standard", storage_class),)


def dns_addons(network: Network) -> tuple[Addon, ...]:
    """Return cluster DNS: CoreDNS with the rights to read Services, and its Service."""
    core = "/api/v1/namespaces/kube-system"
    return (
        (f"{core}/serviceaccounts/coredns", _object("v1", "ServiceAccount")),
        (f"{_RBAC}/clusterroles/system:coredns", _role()),
        (f"{_RBAC}/clusterrolebindings/system:coredns", _binding()),
        (
            f"{core}/configmaps/coredns",
            _object("v1", "ConfigMap", data={"Corefile": COREFILE}),
        ),
        (DNS_DEPLOYMENT, _deployment()),
        (f"{core}/services/kube-dns", _service(network)),
    )


def _object(version: str, kind: str, **content: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": _META, **content}


def _role() -> dict[str, Any]:
    def readable(group: str, *resources: str) -> dict[str, Any]:
        return {"apiGroups": [group], "resources": list(resources), "verbs": ["list", "watch"]}

    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "system:coredns"},
        "rules": [
            readable("", "endpoints", "services", "pods", "namespaces"),
            readable("discovery.k8s.io", "endpointslices"),
        ],
    }


def _binding() -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "system:coredns"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "system:coredns",
        },
        "subjects": [{"kind": "ServiceAccount", **_META}],
    }


def _deployment() -> dict[str, Any]:
    labels = {"k8s-app": "kube-dns"}
    container = {
        "name": "coredns",
        "image": COREDNS_IMAGE,
        "imagePullPolicy": "Never",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": True}],
        "readinessProbe": {
            "httpGet": {"path": "/ready", "port": 8181},
            "periodSeconds": 1,
        },
        "resources": {"requests": {"cpu": "20m", "memory": "50Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        },
    }
    pod = {
        "serviceAccountName": "coredns",
        "dnsPolicy": "Default",  # it is the cluster's DNS, so it cannot query itself
        "priorityClassName": "system-cluster-critical",
        "tolerations": [{"operator": "Exists"}],
        # Port 53 is privileged, and a capability of a non-root user is lost at exec.
        "securityContext": {"runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": "coredns"}}],
    }
    return _object(
        "apps/v1",
        "Deployment",
        spec={
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    )


def _service(network: Network) -> dict[str, Any]:
    service = _object(
        "v1",
        "Service",
        spec={
            "clusterIP": str(network.dns_ip),
            "selector": {"k8s-app": "kube-dns"},
            "ports": [
                {"name": "dns", "port": 53, "protocol": "UDP"},
                {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
            ],
        },
    )
    return {**service, "metadata": {"name": "kube-dns", "namespace": "kube-system"}}
