"""Scrape targets of a cluster's pods, with the labels that Prometheus' discovery of pods gives.

Debian's Prometheus is built without that discovery, so the targets are written for it; everything
after the discovery is `examples/prometheus.yaml` as users have it.
"""

import json
import re
from pathlib import Path
from typing import Any

import yaml

from mm_devcluster.addresses import network_of
from mm_devcluster.cluster import ClusterInfo
from mm_devcluster.layout import Layout
from mm_devcluster.paths import cluster_dir
from mm_devcluster.record import Record
from support.clusters import read
from support.scripts import ROOT

EXAMPLE = ROOT / "examples" / "prometheus.yaml"


def write_targets(cluster: ClusterInfo, file: Path) -> None:
    pods = read(cluster, "pods", "--all-namespaces")["items"]
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps([one for pod in pods for one in discovered(pod)]))
    temporary.rename(file)


def machine_address(cluster: ClusterInfo) -> str:
    """Return the address at which pods reach this machine: its end of the link to the node."""
    record = Record.read(Layout(cluster_dir(cluster.name)))
    assert record is not None
    return str(network_of(record.slot).host_ip)


def scrape_config(file: Path, rules: Path, interval: str) -> dict[str, Any]:
    """Return the example's configuration with targets from a file, rules, and a quick pace."""
    config: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    config["global"] = {"scrape_interval": interval, "evaluation_interval": interval}
    config["rule_files"] = [str(rules)]
    for job in config["scrape_configs"]:
        assert job.pop("kubernetes_sd_configs") == [{"role": "pod"}]
        job["file_sd_configs"] = [{"files": [str(file)], "refresh_interval": interval}]
    return config


def discovered(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a target for each named port of a pod, as Prometheus' discovery labels them."""
    metadata, address = pod["metadata"], pod["status"].get("podIP")
    if not address:
        return []
    labels = {
        "__meta_kubernetes_namespace": metadata["namespace"],
        "__meta_kubernetes_pod_name": metadata["name"],
        "__meta_kubernetes_pod_phase": pod["status"]["phase"],
    }
    for kind in ("label", "annotation"):
        for key, value in metadata.get(f"{kind}s", {}).items():
            labels[f"__meta_kubernetes_pod_{kind}_{re.sub(r'[^a-zA-Z0-9_]', '_', key)}"] = value
    containers = (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ()))
    return [
        {
            "targets": [f"{address}:{port['containerPort']}"],
            "labels": {**labels, "__meta_kubernetes_pod_container_port_name": port["name"]},
        }
        for container in containers
        for port in container.get("ports", ())
        if "name" in port
    ]
