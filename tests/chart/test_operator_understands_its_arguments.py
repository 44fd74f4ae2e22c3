"""What the chart writes into the pod is what the operator's command line reads."""

import re
from dataclasses import fields
from typing import Any

import yaml

from mm_api.v1alpha1.network import CaBundle, NetworkSpec
from mm_operator.settings import Settings, parse_settings
from support.chart import EXHAUSTIVE, of_kind
from support.golden import Golden
from support.scripts import ROOT

VALUES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "pods-found-by-something-else": {"observability": {"scrapeAnnotations": False}},
    "every-value": EXHAUSTIVE,
}


def test_arguments_become_settings(golden: Golden) -> None:
    found = {}
    for name, values in VALUES.items():
        (deployment,) = of_kind("Deployment", values)
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        given = parse_settings(container["args"], {"POD_NAME": "mm-0"})
        found[name] = {one.name: repr(getattr(given, one.name)) for one in fields(given)}
        found[name] |= {"identity": ""}
    usual = found["defaults"].items()
    others = {name: dict(given.items() - usual) for name, given in found.items()}

    recorded = {name: dict(sorted(given.items())) for name, given in others.items() if given}
    golden.check_yaml("settings.yaml", {"defaults": found["defaults"], **recorded})
    assert given.identity.startswith("mm-0_")


def test_probes_reach_the_port_of_the_operator() -> None:
    (deployment,) = of_kind("Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (service,) = of_kind("Service")
    probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")]

    assert container["ports"] == [{"name": "http", "containerPort": Settings("", "").port}]
    assert probes == [
        {"path": "/healthz", "port": "http"},
        {"path": "/healthz", "port": "http"},
        {"path": "/readyz", "port": "http"},
    ]
    assert service["spec"]["ports"][0]["targetPort"] == "http"


def test_the_air_gapped_page_has_values_of_this_chart() -> None:
    """Its images, and the mirror for models that name none."""
    page = (ROOT / "docs" / "tasks" / "air-gapped.md").read_text(encoding="utf-8")
    values = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[0])
    (deployment,) = of_kind("Deployment", values)
    pod = deployment["spec"]["template"]["spec"]
    settings = parse_settings(pod["containers"][0]["args"], {"POD_NAME": "mm-0"})
    assert settings.network == NetworkSpec(
        hub_endpoint="https://hub.example.org", ca_bundle=CaBundle(config_map_name="authorities")
    )
    assert settings.runtime_image == values["runtime"]["image"]
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
