"""The chart brings dashboards, rules and monitors as Grafana and its operators like them."""

import json
from pathlib import Path

import pytest
import yaml

from support.cases import cases
from support.chart import CHART, EXHAUSTIVE, of_kind, rendered
from support.prometheus import promtool

ON = {
    "observability": {
        "rules": {"enabled": True},
        "podMonitor": {"enabled": True},
        "serviceMonitor": {"enabled": True},
    }
}
IN_GRAFANA = {"observability": {**ON["observability"], "grafana": "https://grafana.example/"}}


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
        "default": (ON, "/d/"),
        "Grafana": (IN_GRAFANA, "https://grafana.example/d/"),
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
                for row in json.loads(text)["panels"]
                for panel in (row, *row.get("panels", ()))
                for link in panel.get("links", ())
            ]

    assert len(links) > 30
    assert {link.rpartition("/")[0] + "/" for link in links} == {address}


def test_alerts_lead_to_their_panel_and_to_the_fleet() -> None:
    [rule] = of_kind("PrometheusRule", IN_GRAFANA)
    alerts = [one for group in rule["spec"]["groups"] for one in group["rules"] if "alert" in one]
    file = CHART / "files" / "dashboards" / "multimodal-runbooks.json"
    panels = {str(panel["id"]): panel["title"] for panel in json.loads(file.read_text())["panels"]}

    for alert in alerts:
        links = alert["annotations"]
        assert panels[links["runbook_url"].rpartition("=")[2]] == alert["alert"]
        assert links["dashboard_url"].endswith(
            "/d/multimodal-fleet?var-namespace={{ $labels.namespace }}"
            "{{ with $labels.model }}&var-model={{ . }}{{ end }}"
        )


def test_rules_are_what_prometheus_takes(tmp_path: Path) -> None:
    [rule] = of_kind("PrometheusRule", EXHAUSTIVE)
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump(rule["spec"]))

    assert promtool("check", "rules", str(file)).returncode == 0


def test_a_monitor_without_a_service_is_refused() -> None:
    with pytest.raises(Exception, match=r"set service\.enabled=true"):
        rendered({**ON, "service": {"enabled": False}})
