"""The real KEDA beside an API server: its operator and its metrics adapter as processes here.

They run outside of the cluster as an admin, so what the chart of KEDA would install is its
definitions, a namespace and the APIService.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from mm_devcluster.cluster import ClusterInfo
from support.clusters import apply, kubectl
from support.ended import logged
from support.eventually import eventually
from support.go_modules import compiled, module_folder
from support.ports import free_ports

MODULE = "github.com/kedacore/keda/v2"
NAMESPACE = "keda"
START_SECONDS = 120.0
_EXTERNAL = "v1beta1.external.metrics.k8s.io"


@dataclass(frozen=True)
class Keda:
    """Where the two processes write."""

    operator_log: Path
    adapter_log: Path


@contextmanager
def running_keda(cluster: ClusterInfo, folder: Path) -> Iterator[Keda]:
    how = "`make keda-test` does that, in 17 CPU-minutes"
    operator, provider = compiled("MM_BUILD_KEDA", how, "keda-operator", "keda-adapter")
    for file in sorted((module_folder("keda", MODULE) / "config" / "crd" / "bases").glob("*.yaml")):
        kubectl(cluster, "apply", "--server-side", "--force-conflicts", "-f", str(file))
    metrics, health, grpc, adapter, adapter_metrics = free_ports(5)
    apply(cluster, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    apply(cluster, *_registration(adapter))
    _certificates(folder)
    kubeconfig = f"--kubeconfig={cluster.kubeconfig}"
    commands = {
        "operator": [
            *(str(operator), kubeconfig, "--enable-cert-rotation=false"),
            *(f"--metrics-bind-address=127.0.0.1:{metrics}", f"--cert-dir={folder}"),
            f"--health-probe-bind-address=127.0.0.1:{health}",
            f"--metrics-service-bind-address=127.0.0.1:{grpc}",
        ],
        "adapter": [
            *(str(provider), kubeconfig, f"--lister-kubeconfig={cluster.kubeconfig}"),
            f"--authentication-kubeconfig={cluster.kubeconfig}",
            f"--authorization-kubeconfig={cluster.kubeconfig}",
            *(f"--secure-port={adapter}", f"--port={adapter_metrics}", f"--cert-dir={folder}"),
            f"--tls-cert-file={folder / 'tls.crt'}",
            f"--tls-private-key-file={folder / 'tls.key'}",
            f"--metrics-service-address=127.0.0.1:{grpc}",
        ],
    }
    environment = {
        **os.environ,
        "KEDA_CLUSTER_OBJECT_NAMESPACE": NAMESPACE,
        "POD_NAMESPACE": NAMESPACE,
        "POD_NAME": "keda-0",
        "WATCH_NAMESPACE": "",
    }
    logs = {name: folder / f"{name}.log" for name in commands}
    with ExitStack() as stack:
        removal = ("delete", "apiservice", _EXTERNAL, "--ignore-not-found")
        stack.callback(kubectl, cluster, *removal)
        processes = [
            stack.enter_context(logged(command, logs[name], environment))
            for name, command in commands.items()
        ]
        _wait(cluster, processes, logs)
        yield Keda(logs["operator"], logs["adapter"])


def _wait(
    cluster: ClusterInfo, processes: list[subprocess.Popen[bytes]], logs: dict[str, Path]
) -> None:
    path = "jsonpath={.status.conditions[?(@.type=='Available')].status}"

    def available() -> bool:
        ended = [one for one in processes if one.poll() is not None]
        if ended:
            return True
        return kubectl(cluster, "get", "apiservice", _EXTERNAL, "-o", path) == "True"

    eventually(available, seconds=START_SECONDS, showing=lambda: _tail(logs))
    assert all(one.poll() is None for one in processes), _tail(logs)


def _tail(logs: dict[str, Path]) -> str:
    return "\n".join(f"{name}: {log.read_text()[-2000:]}" for name, log in logs.items())


def _registration(port: int) -> tuple[dict[str, object], ...]:
    name = {"name": "keda-metrics-apiserver", "namespace": NAMESPACE}
    controller = {"name": "horizontal-pod-autoscaler", "namespace": "kube-system"}
    rbac = "rbac.authorization.k8s.io"
    rule = {"apiGroups": ["external.metrics.k8s.io"], "resources": ["*"], "verbs": ["get", "list"]}
    role = {"name": "keda-external-metrics-reader"}
    return (
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": name,
            "spec": {"type": "ExternalName", "externalName": "127.0.0.1"},
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": _EXTERNAL},
            "spec": {
                "group": "external.metrics.k8s.io",
                "version": "v1beta1",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "insecureSkipTLSVerify": True,
                "service": {**name, "port": port},
            },
        },
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": role, "rules": [rule]},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": role,
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", **role},
            "subjects": [{"kind": "ServiceAccount", **controller}],
        },
    )


def _certificates(folder: Path) -> None:
    """Make one authority and one certificate: the two speak mutual TLS with each other."""
    ec = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1")
    extensions = folder / "extensions"
    extensions.write_text(
        "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n", encoding="utf-8"
    )
    ca, ca_key, request = folder / "ca.crt", folder / "ca.key", folder / "tls.csr"
    for command in (
        ["req", "-x509", *ec, "-subj", "/CN=keda", "-keyout", str(ca_key), "-out", str(ca)],
        [
            *("req", *ec[:-2], "-subj", "/CN=127.0.0.1"),
            *("-keyout", str(folder / "tls.key"), "-out", str(request)),
        ],
        [
            *("x509", "-req", "-in", str(request), "-CA", str(ca), "-CAkey", str(ca_key)),
            *("-CAcreateserial", "-days", "1", "-extfile", str(extensions)),
            *("-out", str(folder / "tls.crt")),
        ],
    ):
        subprocess.run(["openssl", *command], check=True, capture_output=True, timeout=60)
