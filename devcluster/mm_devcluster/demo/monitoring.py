"""A Prometheus beside the development cluster: Debian's, on this machine, scraping its pods.

It runs outside, because the machine has routes to the pods and the cluster needs no further image.
Pods reach it at the machine's end of the node's link.
"""

import json
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from mm_api.contract import GATEWAY_PORT, METRICS_PORT
from mm_api.hosts import host_port
from mm_api.labels import APP_COMPONENT
from mm_devcluster import packages
from mm_devcluster.addresses import network_of
from mm_devcluster.demo.target import Target
from mm_devcluster.errors import DevClusterError
from mm_devcluster.layout import Layout
from mm_devcluster.paths import cluster_dir
from mm_devcluster.record import Record

START_SECONDS = 30.0  # measured 0.2
STOP_SECONDS = 20.0
PORT = 9090
SCRAPE = "2s"
"""A demo should not wait for a scrape; 15 s is usual."""

_PORTS = {"server": GATEWAY_PORT, "encoder": METRICS_PORT}
_PODS = f"app.kubernetes.io/component in ({','.join(_PORTS)})"
_LIST_SECONDS = 2.0


def targets(pods: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what Prometheus scrapes of a list of pods: their page, with the pod's labels."""
    return [
        {
            "targets": [host_port(address, _PORTS[pod["metadata"]["labels"][APP_COMPONENT]])],
            "labels": {
                "namespace": pod["metadata"]["namespace"],
                "pod": pod["metadata"]["name"],
            },
        }
        for pod in pods.get("items", ())
        if (address := pod.get("status", {}).get("podIP"))
        and pod["status"].get("phase") == "Running"
    ]


def configuration(folder: Path) -> dict[str, Any]:
    """Return a Prometheus configuration that scrapes what a file names.

    Debian's Prometheus is built without the discovery of Kubernetes' pods.
    """
    discovery = {"files": [str(folder / "targets.json")], "refresh_interval": SCRAPE}
    return {
        "global": {"scrape_interval": SCRAPE},
        "scrape_configs": [{"job_name": "gateways", "file_sd_configs": [discovery]}],
    }


def _follow_pods(target: Target, folder: Path, stop: threading.Event) -> None:
    """Keep the file of targets equal to the serving pods of the cluster."""
    file, scratch = folder / "targets.json", folder / "targets.new"
    while not stop.is_set():
        try:
            found = target.document("pods", "--all-namespaces", "-l", _PODS)
        except DevClusterError:
            found = None  # queried again in a moment; the last answer stays
        if found is not None:
            scratch.write_text(json.dumps(targets(found)))
            scratch.rename(file)
        stop.wait(_LIST_SECONDS)


@contextmanager
def running(target: Target) -> Iterator[None]:
    """Run Prometheus until the block ends, at the address that the demo's chart names.

    Raises:
        DevClusterError: it does not start.
    """
    packages.install(packages.MONITORING_PACKAGES)
    address = address_of(target)
    if address is None:
        raise DevClusterError(
            f"{target.name} is not a development cluster: its chart names your own Prometheus"
        )
    with TemporaryDirectory(prefix="mm-prometheus-") as folder:
        place = Path(folder)
        # JSON is YAML.
        (place / "prometheus.yml").write_text(json.dumps(configuration(place)))
        with (place / "log").open("wb") as log:
            process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={place / 'prometheus.yml'}",
                    f"--storage.tsdb.path={place / 'data'}",
                    f"--web.listen-address={address.removeprefix('http://')}",
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        stop = threading.Event()
        follower = threading.Thread(target=_follow_pods, args=(target, place, stop), daemon=True)
        try:
            _wait(process, address, place / "log")
            follower.start()
            yield
        finally:
            stop.set()
            if follower.is_alive():
                follower.join(STOP_SECONDS)
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(STOP_SECONDS)


def _wait(process: "subprocess.Popen[bytes]", address: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with urlopen(f"{address}/-/ready", timeout=5):  # noqa: S310  # our own address
                return
        except (URLError, OSError):
            if process.poll() is not None or time.monotonic() > deadline:
                raise DevClusterError(
                    f"prometheus does not start: {log.read_text()[-2000:]}"
                ) from None
            time.sleep(0.1)


def address_of(target: Target) -> str | None:
    """Return where pods reach it: this machine's end of the link; None: it is another's cluster."""
    record = Record.read(Layout(cluster_dir(target.name)))
    if record is None:
        return None
    return f"http://{host_port(str(network_of(record.slot, record.ip_family).host_ip), PORT)}"
