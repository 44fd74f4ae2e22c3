"""The chart brings dashboards, rules and monitors as Grafana and its operators like them."""

import json
from pathlib import Path

import pytest
import yaml

from support.cases import cases
from support.chart import CHART, EXHAUSTIVE, of_kind, rendered
from support.prometheus import promtool

MONITORS = {"PrometheusRule", "PodMonitor", "ServiceMonitor"}
ON = {
    "observability": {
        "rules": {"enabled": True},
        "podMonitor": {"enabled": True},
        "serviceMonitor": {"enabled": True},
    }
}


def test_dashboards_are_found_by_the_sidecar() -> None:
    every = of_kind("ConfigMap", {"router": {"enabled": True}})
    maps = [item for item in every if not item["metadata"]["name"].endswith("-router")]
    files = {path.name for path in (CHART / "files" / "dashboards").glob("*.json")}
    found = {name: json.loads(text) for item in maps for name, text in item["data"].items()}

    assert set(found) == files
    assert {item["metadata"]["labels"]["grafana_dashboard"] for item in maps} == {"1"}
    assert {board["uid"] + ".json" for board in found.values()} == files


@cases(
    "values address",
    {
        "default": (ON, "docs/runbooks/"),
        "published": (EXHAUSTIVE, "https://runbooks.example/multimodal/"),
    },
)
def test_runbooks_are_linked_where_they_are_published(
    values: dict[str, object], address: str
) -> None:
    """Every alert and every link of a panel leads to the address of the values."""
    [rule] = of_kind("PrometheusRule", values)
    links = [
        alert["annotations"]["runbook_url"]
        for group in rule["spec"]["groups"]
        for alert in group["rules"]
        if "alert" in alert
    ]
    for item in of_kind("ConfigMap", values):
        for text in item["data"].values():
            links += [
                link["url"]
                for panel in json.loads(text)["panels"]
                for link in panel.get("links", ())
            ]

    assert len(links) > 30
    assert {link.rpartition("/")[0] + "/" for link in links} == {address}


def test_rules_are_what_prometheus_takes(tmp_path: Path) -> None:
    [rule] = of_kind("PrometheusRule", EXHAUSTIVE)
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump(rule["spec"]))

    assert promtool("check", "rules", str(file)).returncode == 0


def test_monitors_are_optional() -> None:
    """Without their definitions nothing of the Prometheus operator may be in a release."""
    assert MONITORS & {item["kind"] for item in rendered()} == set()
    assert {item["kind"] for item in rendered(ON)} >= MONITORS


def test_pods_of_models_are_monitored() -> None:
    """One port of a serving pod is scraped: the gateway's page has Triton's series too."""
    [everywhere] = of_kind("PodMonitor", ON)
    [some] = of_kind("PodMonitor", EXHAUSTIVE)
    [gateway] = everywhere["spec"]["podMetricsEndpoints"]

    assert everywhere["spec"]["namespaceSelector"] == {"any": True}
    assert some["spec"]["namespaceSelector"] == {"matchNames": ["team-a", "team-b"]}
    assert gateway["port"] == "http"


def test_the_operator_is_scraped_once() -> None:
    """Annotations lead plain Prometheus to the operator, unless a ServiceMonitor does."""
    [plain] = of_kind("Service")
    [monitored] = of_kind("Service", ON)
    [off] = of_kind("Service", {"observability": {"scrapeAnnotations": False}})

    assert plain["metadata"]["annotations"] == {
        "prometheus.io/path": "/metrics",
        "prometheus.io/port": "8080",
        "prometheus.io/scrape": "true",
    }
    assert "annotations" not in monitored["metadata"]
    assert "annotations" not in off["metadata"]


def test_a_monitor_without_a_service_is_refused() -> None:
    with pytest.raises(Exception, match=r"set service\.enabled=true"):
        rendered({**ON, "service": {"enabled": False}})
