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
                for row in json.loads(text)["panels"]
                for panel in (row, *row.get("panels", ()))
                for link in panel.get("links", ())
            ]

    assert len(links) > 30
    assert {link.rpartition("/")[0] + "/" for link in links} == {address}


def test_rules_are_what_prometheus_takes(tmp_path: Path) -> None:
    [rule] = of_kind("PrometheusRule", EXHAUSTIVE)
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump(rule["spec"]))

    assert promtool("check", "rules", str(file)).returncode == 0


def test_a_monitor_without_a_service_is_refused() -> None:
    with pytest.raises(Exception, match=r"set service\.enabled=true"):
        rendered({**ON, "service": {"enabled": False}})
