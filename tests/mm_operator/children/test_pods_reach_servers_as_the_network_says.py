"""Proxy and authorities reach the containers that read sources, stores or URLs, and no others."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mm_api.v1alpha1.network import CaBundle, NetworkSpec, ProxySpec
from mm_operator import names
from mm_operator.children.all import build
from mm_operator.model import Plan, Snapshot, TracingSettings
from support.cases import cases
from support.staged import fresh, inspected, planned

PROXY = "http://proxy.example.org:3128"
PROXIED = {"HTTP_PROXY": PROXY, "HTTPS_PROXY": PROXY, "NO_PROXY": ".svc,10.0.0.0/8"}
TRUSTED = {"SSL_CERT_FILE": "/etc/multimodal-authorities/ca.crt"}


def outward(pod: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    return {
        one["name"]: {
            variable["name"]: variable["value"]
            for variable in one["env"]
            if variable["name"] in {*PROXIED, *TRUSTED}
        }
        for one in [*pod.get("initContainers", []), *pod["containers"]]
    }


def variables(pod: Mapping[str, Any]) -> dict[str, str]:
    (container,) = pod["containers"]
    return {one["name"]: one["value"] for one in container["env"] if "value" in one}


HUB = {"repo": "acme/llava"}


@cases(
    "own source expected",
    {
        "the-operators": (None, {}, "https://operator.example"),
        "the-models": ("https://model.example", {}, "https://model.example"),
        "the-sources": (
            "https://model.example",
            {"endpoint": "https://source.example"},
            "https://source.example",
        ),
    },
)
def test_jobs_read_from_the_nearest_mirror_of_the_hub(
    own: str | None, source: dict[str, str], expected: str
) -> None:
    """Inspection and build; pods that serve read no Hub, and no other source has the variable."""
    spec: dict[str, Any] = {
        "model": {"source": {"persistentVolumeClaim": None, "huggingFace": {**HUB, **source}}}
    }
    if own:
        spec["network"] = {"hubEndpoint": own}
    network = NetworkSpec(hub_endpoint="https://operator.example")
    for stage in (fresh(spec), inspected(spec)):
        snapshot, plan = operators(stage, network)
        jobs = [one for one in build(snapshot, plan) if one["kind"] == "Job"]
        found = [variables(job["spec"]["template"]["spec"]).get("HF_ENDPOINT") for job in jobs]
        assert found == [expected]
    snapshot, plan = operators(fresh({}), network)
    (job,) = [one for one in build(snapshot, plan) if one["kind"] == "Job"]
    assert "HF_ENDPOINT" not in variables(job["spec"]["template"]["spec"])


@cases("own expected", {"the-operators": ([], ["all"]), "the-models": (["own"], ["own"])})
def test_images_are_pulled_with_the_operators_secrets_unless_a_model_names_its_own(
    own: list[str], expected: list[str]
) -> None:
    spec = {"runtime": {"imagePullSecrets": own}}
    found = []
    for stage in (fresh(spec), inspected(spec), inspected(spec, built=True)):
        snapshot, plan = stage
        settings = replace(snapshot.settings, image_pull_secrets=("all",))
        for one in build(replace(snapshot, settings=settings), plan):
            if one["kind"] in {"Job", "Deployment"}:
                pod = one["spec"]["template"]["spec"]
                found.append([secret["name"] for secret in pod["imagePullSecrets"]])

    assert len(found) > 2
    assert found == [expected] * len(found)


def test_a_change_of_the_operators_settings_is_a_revision_where_pods_change() -> None:
    """New Secrets for images are one, a mirror of the Hub is none."""
    snapshot, _ = inspected({}, built=True)

    def revision(**settings: object) -> str:
        changed = replace(snapshot, settings=replace(snapshot.settings, **settings))
        return planned(changed)[1].rollout.serving_hash

    before = revision()
    assert revision(network=NetworkSpec(hub_endpoint="https://hub.example")) == before
    assert revision(network=NetworkSpec(ip_family_policy="PreferDualStack")) == before
    assert revision(network=NetworkSpec(proxy=ProxySpec(http=PROXY))) != before
    assert revision(image_pull_secrets=("all",)) != before
    assert revision(tracing=TracingSettings(endpoint="http://collector:4318")) != before


@cases(
    "own operator expected",
    {
        "of-the-cluster": (None, None, None),
        "the-operators": (None, "PreferDualStack", "PreferDualStack"),
        "the-models": ("SingleStack", "PreferDualStack", "SingleStack"),
    },
)
def test_services_have_the_families_that_are_stated(
    own: str | None, operator: str | None, expected: str | None
) -> None:
    """The one that clients use: encoders would count twice, and Triton's HTTP has one family."""
    spec: dict[str, Any] = {
        "runtime": {"triton": {"expose": True}},
        "vision": {"placement": "Disaggregated"},
        **({"network": {"ipFamilyPolicy": own}} if own else {}),
    }
    every = NetworkSpec.model_validate({"ipFamilyPolicy": operator})
    snapshot, plan = operators(inspected(spec, built=True), every)
    found = {
        one["metadata"]["name"]: one["spec"].get("ipFamilyPolicy")
        for one in build(snapshot, plan)
        if one["kind"] == "Service"
    }

    assert len(found) > 2
    assert found.pop(names.deployment(snapshot.name)) == expected
    assert set(found.values()) == {None}


def operators(stage: tuple[Snapshot, Plan], network: NetworkSpec) -> tuple[Snapshot, Plan]:
    snapshot, plan = stage
    return replace(snapshot, settings=replace(snapshot.settings, network=network)), plan


@cases(
    "own expected",
    {
        "the-operators": ({}, PROXY),
        "the-models": ({"network": {"proxy": {"http": "http://own:1"}}}, "http://own:1"),
    },
)
def test_a_models_own_settings_come_first(own: dict[str, Any], expected: str) -> None:
    network = NetworkSpec(
        proxy=ProxySpec(http=PROXY, https=PROXY), ca_bundle=CaBundle(config_map_name="all")
    )
    snapshot, plan = operators(fresh(own), network)
    (job,) = [one for one in build(snapshot, plan) if one["kind"] == "Job"]
    found = outward(job["spec"]["template"]["spec"])["inspect"]

    assert found == {"HTTP_PROXY": expected, "HTTPS_PROXY": PROXY, **TRUSTED}
