"""The Prometheus operator's own definitions take the chart's objects, without an unknown field."""

import pytest
import yaml

from mm_devcluster.cluster import ClusterInfo
from support.chart import EXHAUSTIVE, rendered
from support.clusters import kubectl, namespace
from support.eventually import eventually
from support.go_modules import module_folder

pytestmark = pytest.mark.cluster

MODULE = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
KINDS = {
    "PodMonitor": "podmonitors",
    "PrometheusRule": "prometheusrules",
    "ServiceMonitor": "servicemonitors",
}


@pytest.fixture(name="definitions", scope="module")
def installed_definitions(control_plane: ClusterInfo) -> ClusterInfo:
    """Apply the definitions of the Prometheus operator; each test waits until they are known."""
    folder = module_folder("/", MODULE) / "example" / "prometheus-operator-crd"
    for plural in KINDS.values():
        file = folder / f"monitoring.coreos.com_{plural}.yaml"
        kubectl(control_plane, "apply", "--server-side", "-f", str(file))
    return control_plane


def test_every_monitor_is_taken(definitions: ClusterInfo) -> None:
    """Strict validation accepts what the exhaustive values make; nothing is dropped silently."""
    with namespace(definitions, "monitors"):
        items = [item for item in rendered(EXHAUSTIVE) if item["kind"] in KINDS]
        for item in items:
            item["metadata"]["namespace"] = "monitors"
            text = yaml.safe_dump(item)

            def taken(text: str = text) -> bool:
                kubectl(definitions, "apply", "--validate=strict", "-f", "-", stdin=text)
                return True

            # Discovery learns of a new kind a moment after it is established.
            eventually(taken)
        found = {
            kind: kubectl(
                definitions, "get", plural, "--namespace", "monitors", "-o", "name"
            ).split()
            for kind, plural in KINDS.items()
        }

    assert {item["kind"] for item in items} == set(KINDS)
    assert [len(names) for names in found.values()] == [1, 1, 1]


def test_a_misspelt_field_would_be_refused(definitions: ClusterInfo) -> None:
    [monitor] = [item for item in rendered(EXHAUSTIVE) if item["kind"] == "PodMonitor"]
    monitor["spec"]["podMetricsEndpoint"] = monitor["spec"].pop("podMetricsEndpoints")
    with namespace(definitions, "misspelt"):
        monitor["metadata"]["namespace"] = "misspelt"
        apply = ("apply", "--validate=strict", "-f", "-")

        def reported() -> str:
            return kubectl(definitions, *apply, stdin=yaml.safe_dump(monitor), check=False)

        # Discovery may not know the kind yet.
        eventually(
            lambda: 'unknown field "spec.podMetricsEndpoint"' in reported(), showing=reported
        )
