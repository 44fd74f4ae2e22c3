"""A plain Prometheus that follows annotations scrapes each pod of a model once: its one page."""

import json
from pathlib import Path
from typing import Any

from mm_operator.model import PlanSettings
from support.eventually import eventually_async
from support.models import SETTINGS
from support.pod_targets import discovered
from support.ports import free_ports
from support.prometheus import running_prometheus
from support.staged import children, inspected

DISAGGREGATED = {"vision": {"placement": "Disaggregated"}}
MONITORED = PlanSettings(SETTINGS.runtime_image, SETTINGS.builder_version, scrape_annotations=False)
ANNOTATED: dict[str, Any] = {
    "job_name": "kubernetes-pods",
    "relabel_configs": [
        {
            "source_labels": ["__meta_kubernetes_pod_annotation_prometheus_io_scrape"],
            "action": "keep",
            "regex": "true",
        },
        {
            "source_labels": ["__meta_kubernetes_pod_annotation_prometheus_io_path"],
            "action": "replace",
            "target_label": "__metrics_path__",
            "regex": "(.+)",
        },
        {
            "source_labels": ["__address__", "__meta_kubernetes_pod_annotation_prometheus_io_port"],
            "action": "replace",
            "regex": r"([^:]+)(?::\d+)?;(\d+)",
            "replacement": "$1:$2",
            "target_label": "__address__",
        },
        {
            "source_labels": ["__meta_kubernetes_namespace"],
            "action": "replace",
            "target_label": "namespace",
        },
    ],
}
"""The job of prometheus-community's chart for pods with annotations, without its other rules."""


def _pods(settings: PlanSettings, network: str) -> list[dict[str, Any]]:
    """Return a running pod of each kind as the API server would show it."""
    made = children(inspected(DISAGGREGATED, built=True, settings=settings))
    return [
        {
            "metadata": {**template["metadata"], "name": kind, "namespace": "demo"},
            "spec": template["spec"],
            "status": {"phase": "Running", "podIP": f"{network}.{host}"},
        }
        for host, kind in enumerate(("server", "encoder"), start=1)
        for template in [made[f"Deployment/{kind}"]["spec"]["template"]]
    ]


async def test_each_pod_is_scraped_once(tmp_path: Path) -> None:
    pods = [*_pods(SETTINGS, "127.1.0"), *_pods(MONITORED, "127.2.0")]
    found = [target for pod in pods for target in discovered(pod)]
    assert len(found) == 2 * (2 + 2)  # named ports of a server and its gateway, and of an encoder
    file, folder = tmp_path / "targets.json", tmp_path / "prometheus"
    file.write_text(json.dumps(found))
    folder.mkdir()
    job = {**ANNOTATED, "file_sd_configs": [{"files": [str(file)]}]}

    with running_prometheus(folder, {"scrape_configs": [job]}, port=free_ports(1)[0]) as server:
        # Prometheus takes what it finds every five seconds.
        await eventually_async(
            lambda: bool(server.api("targets")["activeTargets"]), seconds=60, pause_seconds=0.2
        )
        pages = [target["scrapeUrl"] for target in server.api("targets")["activeTargets"]]

    assert sorted(pages) == ["http://127.1.0.1:8080/metrics", "http://127.1.0.2:8002/metrics"]
