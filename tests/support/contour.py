"""The real Contour and its Envoy beside an API server: a controller of Gateway API.

Contour follows one Gateway and its routes, and sends Envoy the configuration that it makes of them.
Both run outside of the cluster, Contour as an admin: what its own installation would make is its
definitions and those of Gateway API.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from mm_devcluster.cluster import ClusterInfo
from support.clusters import kubectl
from support.ended import logged
from support.go_modules import compiled, module_folder
from support.ports import free_ports

CONTROLLER = "projectcontour.io/gateway-controller"
PORT_OFFSET = 8000
"""Envoy listens at a Gateway's port and so many more."""
STOP_SECONDS = 20.0
_UNUSED = ("tlsroutes", "grpcroutes", "tcproutes", "backendtlspolicies")
"""Of other versions or channels than the definitions here."""


def program() -> Path:
    return compiled("MM_BUILD_CONTOUR", "`make gateway-api-test` does that", "contour")[0]


def define_gateways(cluster: ClusterInfo) -> None:
    """Let the API server know Gateway API and Contour's own kinds. They stay, as others' may be."""
    standard = module_folder("contour", "sigs.k8s.io/gateway-api") / "config" / "crd" / "standard"
    contour = module_folder("contour", "github.com/projectcontour/contour")
    kinds = sorted(standard.glob("gateway.networking.k8s.io_*.yaml"))
    for file in (*kinds, contour / "examples" / "contour" / "01-crds.yaml"):
        kubectl(cluster, "apply", "--server-side", "--force-conflicts", "-f", str(file))


@contextmanager
def running_contour(cluster: ClusterInfo, folder: Path, gateway: dict[str, str]) -> Iterator[None]:
    """Run Contour and an Envoy that it configures until the block ends."""
    xds, health, metrics, debug, stats = free_ports(5)
    config = folder / "contour.yaml"
    config.write_text(yaml.safe_dump({"gateway": {"gatewayRef": gateway}}))
    contour: list[str | Path] = [
        *(program(), "serve", "--insecure", "--disable-leader-election", "--config-path", config),
        *("--kubeconfig", cluster.kubeconfig, "--xds-address=127.0.0.1", f"--xds-port={xds}"),
        *("--health-address=127.0.0.1", f"--health-port={health}"),
        *("--http-address=127.0.0.1", f"--http-port={metrics}", f"--debug-http-port={debug}"),
        *("--stats-address=127.0.0.1", f"--stats-port={stats}"),
        *(f"--disable-feature={one}" for one in _UNUSED),
    ]
    # Names of sockets are short, and a test's folder may not be.
    with tempfile.TemporaryDirectory(prefix="mm-") as short:
        bootstrap = folder / "envoy.json"
        made: list[str | Path] = [
            *(program(), "bootstrap", bootstrap, "--xds-address=127.0.0.1", f"--xds-port={xds}"),
            f"--admin-address={short}/admin",
        ]
        subprocess.run(made, check=True, capture_output=True, timeout=STOP_SECONDS)
        envoy: list[str | Path] = [
            *(Path(sys.prefix) / "bin" / "envoy", "--config-path", bootstrap),
            *("--concurrency", "1", "--disable-hot-restart", "--log-level", "warning"),
            *("--service-cluster", "tests", "--service-node", "tests"),
        ]
        with logged(contour, folder / "contour.log"), logged(envoy, folder / "envoy.log"):
            yield
