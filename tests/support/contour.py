"""The real Contour and its Envoy beside an API server: a controller of Gateway API.

Contour follows one Gateway and its routes, and sends Envoy the configuration that it makes of them.
Both run outside of the cluster, Contour as an admin: what its own installation would make is its
definitions and those of Gateway API.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from mm_devcluster.binaries import ensure_binaries, is_built
from mm_devcluster.cluster import ClusterInfo
from support.clusters import kubectl
from support.ended import end
from support.go_modules import module_folder
from support.ports import free_ports
from support.tied import tied

CONTROLLER = "projectcontour.io/gateway-controller"
PORT_OFFSET = 8000
"""Envoy listens at a Gateway's port and so many more."""
STOP_SECONDS = 20.0
_UNUSED = ("tlsroutes", "grpcroutes", "tcproutes", "backendtlspolicies")
"""Of other versions or channels than the definitions here."""


def program() -> Path:
    """Return Contour; the test is skipped where compiling it was not requested."""
    if not is_built("contour") and not os.environ.get("MM_BUILD_CONTOUR"):
        pytest.skip("Contour is not compiled: `make gateway-api-test` does that")
    return ensure_binaries(["contour"])["contour"]


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
    config.write_text(yaml.safe_dump(_config(gateway)))
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
        with _logged(contour, folder / "contour.log"), _logged(envoy, folder / "envoy.log"):
            yield


def _config(gateway: dict[str, str]) -> dict[str, Any]:
    return {"gateway": {"gatewayRef": gateway}}


@contextmanager
def _logged(command: list[str | Path], log: Path) -> Iterator[None]:
    with log.open("wb") as file:
        process = subprocess.Popen(tied(command), stdout=file, stderr=file)
    try:
        yield
    finally:
        end(process, STOP_SECONDS)
