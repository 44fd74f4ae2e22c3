"""The real endpoint picker of the Gateway API Inference Extension, as a process of a test.

It follows an InferencePool at an API server, its pods and their metrics, and says to Envoy which
pod a request is for.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from mm_devcluster.cluster import ClusterInfo
from support.clusters import kubectl
from support.ended import logged
from support.go_modules import compiled, module_folder
from support.ports import free_ports
from support.scripts import ROOT

MODULE = "sigs.k8s.io/gateway-api-inference-extension"
CONFIG = ROOT / "examples" / "endpoint-picker.yaml"
"""The configuration that docs/design/router.md names."""


def pool_definition() -> Path:
    """Return the extension's own definition of InferencePools, in the version of the picker."""
    folder = module_folder("endpoint-picker", MODULE) / "config" / "crd" / "bases"
    return folder / "inference.networking.k8s.io_inferencepools.yaml"


def program() -> Path:
    return compiled("MM_BUILD_ENDPOINT_PICKER", "`make inference-test` does that", "epp")[0]


@contextmanager
def defined_pools(cluster: ClusterInfo) -> Iterator[None]:
    file = str(pool_definition())
    kubectl(cluster, "apply", "--server-side", "-f", file)
    try:
        yield
    finally:
        kubectl(cluster, "delete", "-f", file)


@contextmanager
def running_picker(cluster: ClusterInfo, folder: Path, namespace: str, pool: str) -> Iterator[int]:
    """Run the picker of a pool; yields the port at which Envoy finds it, with TLS."""
    found = yaml.safe_load(CONFIG.read_text())
    port, health, metrics = free_ports(3)
    command = [
        *(program(), "--pool-namespace", namespace, "--pool-name", pool),
        *("--grpc-port", str(port), "--grpc-health-port", str(health)),
        *("--metrics-port", str(metrics), "--tracing=false", "--enable-pprof=false"),
        *("--config-text", found["data"]["config.yaml"], "--zap-encoder", "json"),
    ]
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "NAMESPACE": namespace}
    with logged(command, folder / "picker.log", environment):
        yield port
