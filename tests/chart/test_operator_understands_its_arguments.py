"""What the chart writes into the pod is what the operator's command line reads."""

import re
from dataclasses import replace
from typing import Any

import yaml

from mm_api.v1alpha1.network import CaBundle, NetworkSpec, ProxySpec
from mm_operator.scaling.own_prometheus import OwnPrometheusSettings
from mm_operator.settings import Settings, parse_settings
from support.cases import cases
from support.chart import EXHAUSTIVE, NAMESPACE, of_kind
from support.scripts import ROOT


@cases(
    "values expected",
    {
        "defaults": (
            {},
            Settings(
                runtime_image="localhost/multimodal/runtime:0.1.0",
                lease_namespace=NAMESPACE,
                lease_name="multimodal-operator",
                role_name="multimodal-system-multimodal-operator",
                definition="Upgrade",
                workers=8,
            ),
        ),
        "pods-found-by-something-else": (
            {"observability": {"scrapeAnnotations": False}},
            Settings(
                runtime_image="localhost/multimodal/runtime:0.1.0",
                lease_namespace=NAMESPACE,
                lease_name="multimodal-operator",
                role_name="multimodal-system-multimodal-operator",
                definition="Upgrade",
                scrape_annotations=False,
            ),
        ),
        "every-value": (
            EXHAUSTIVE,
            Settings(
                runtime_image="registry.example/runtime:1",
                vllm_image="registry.example/vllm:v0.26.0",
                lease_namespace=NAMESPACE,
                lease_name="mm-operator",
                role_name="multimodal-system-mm-operator",
                definition="Upgrade",
                namespaces=("team-a", "team-b"),
                watch_nodes=True,
                log_level="debug",
                workers=9,
                prometheus=OwnPrometheusSettings(
                    addresses=("http://prometheus-0:9090", "http://prometheus-1:9090"),
                    match_labels=(("cluster", "a"), ("replica", "x y")),
                    credentials="/etc/multimodal-operator/prometheus",
                    server_name="prometheus.example",
                    insecure=True,
                ),
                network=NetworkSpec(
                    proxy=ProxySpec(
                        http="http://proxy.example:3128",
                        https="http://proxy.example:3129",
                        no_proxy=[".svc", "10.0.0.0/8"],
                        request_urls=True,
                    ),
                    ca_bundle=CaBundle(config_map_name="authorities", key="all.pem"),
                    hub_endpoint="https://hub.example",
                    ip_family_policy="PreferDualStack",
                ),
                image_pull_secrets=("models-registry",),
                sharing=(frozenset({"team-a", "team-b"}),),
                max_rolling_models=3,
                scrape_annotations=False,
                user_ids="Namespace",
                keda=True,
                keda_authentication="prometheus",
                keda_auth_modes="tls,bearer",
                scaling_interval_seconds=30.0,
            ),
        ),
    },
)
def test_arguments_become_settings(values: dict[str, Any], expected: Settings) -> None:
    (deployment,) = of_kind("Deployment", values)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]

    given = parse_settings(container["args"], {"POD_NAME": "mm-0"})

    assert replace(given, identity="") == expected
    assert given.identity.startswith("mm-0_")


def test_probes_reach_the_port_of_the_operator() -> None:
    (deployment,) = of_kind("Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (service,) = of_kind("Service")
    probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")]

    assert container["ports"] == [{"name": "http", "containerPort": Settings("").port}]
    assert probes == [
        {"path": "/healthz", "port": "http"},
        {"path": "/healthz", "port": "http"},
        {"path": "/readyz", "port": "http"},
    ]
    assert service["spec"]["ports"][0]["targetPort"] == "http"


def test_the_air_gapped_page_has_values_of_this_chart() -> None:
    """Its images, and the mirror for models that name none."""
    page = (ROOT / "docs" / "how-to" / "air-gapped.md").read_text(encoding="utf-8")
    values = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[0])
    (deployment,) = of_kind("Deployment", values)
    pod = deployment["spec"]["template"]["spec"]
    settings = parse_settings(pod["containers"][0]["args"], {"POD_NAME": "mm-0"})
    assert settings.network == NetworkSpec(
        hub_endpoint="https://hub.example.org", ca_bundle=CaBundle(config_map_name="authorities")
    )
    assert settings.runtime_image == values["runtime"]["image"]
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
