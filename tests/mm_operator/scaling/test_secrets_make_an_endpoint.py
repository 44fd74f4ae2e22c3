"""Token and certificates of a Prometheus come from Secrets of the model's namespace."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from mm_api.v1alpha1 import PrometheusSpec
from mm_operator.cluster.client import Client, connect
from mm_operator.scaling.answers import MetricsError
from mm_operator.scaling.endpoints import Endpoints
from mm_operator.scaling.own_prometheus import OwnPrometheus, OwnPrometheusSettings
from mm_operator.scaling.prometheus import Endpoint
from support.cases import cases
from support.model_namespace import Api

pytestmark = pytest.mark.cluster


def spec_of(**changes: object) -> PrometheusSpec:
    return PrometheusSpec.model_validate({"addresses": ["https://a", "https://b"], **changes})


def resolve(api: Api, spec: PrometheusSpec | None, *own: str) -> Endpoint:

    async def requested() -> Endpoint:
        client = Client(await connect(str(api.cluster.kubeconfig), None))
        try:
            settings = OwnPrometheusSettings(addresses=own)
            return await Endpoints(client, OwnPrometheus(settings)).resolve(api.namespace, spec)
        finally:
            await client.close()

    return asyncio.run(requested())


def test_secrets_are_read(api: Api) -> None:
    """A token is taken without the newline that an editor leaves; labels and name go along."""
    api.kubectl("create", "secret", "generic", "prom", "--from-literal=token=abc\n")
    api.kubectl("create", "secret", "generic", "ca", "--from-literal=ca.crt=PEM")
    spec = spec_of(
        tokenSecretRef={"name": "prom"},
        matchLabels={"cluster": "a"},
        tls={"caSecretRef": {"name": "ca"}, "serverName": "prometheus"},
    )

    assert resolve(api, spec) == Endpoint(
        addresses=("https://a", "https://b"),
        match_labels=(("cluster", "a"),),
        ca="PEM",
        server_name="prometheus",
        token="abc",
        of_tenant=True,
    )


def test_a_secret_that_may_not_be_read_is_named(api: Api, tmp_path: Path) -> None:
    """Without the right the sentence names the Secret and the chart value that gives it."""
    api.kubectl("create", "serviceaccount", "operator")
    config = yaml.safe_load(api.cluster.kubeconfig.read_text(encoding="utf-8"))
    token = api.kubectl("create", "token", "operator").strip()
    config["users"] = [{"name": one["name"], "user": {"token": token}} for one in config["users"]]
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    powerless = replace(api, cluster=replace(api.cluster, kubeconfig=path))

    with pytest.raises(MetricsError) as refusal:
        resolve(powerless, spec_of(tokenSecretRef={"name": "prom"}))

    assert str(refusal.value) == (
        "the operator may not read Secret prom: add it to the chart value "
        f"autoscaling.modelSecrets (namespace {api.namespace}, names [prom])"
    )


def test_a_user_and_a_password_are_read(api: Api) -> None:
    """A Secret of Kubernetes' own type for basic authentication takes the place of a token."""
    kind = "--type=kubernetes.io/basic-auth"
    api.kubectl(
        *("create", "secret", "generic", "user", kind),
        *("--from-literal=username=ada", "--from-literal=password=secret"),
    )

    found = resolve(api, spec_of(basicAuthSecretRef={"name": "user"}))

    assert (found.username, found.password, found.token) == ("ada", "secret", "")


@cases(
    "reference sentence",
    {
        "secret": ({"name": "absent"}, "there is no Secret absent in the model's"),
        "key": ({"name": "prom", "key": "other"}, "Secret prom has no key other"),
    },
)
def test_what_is_missing_is_reported(api: Api, reference: dict[str, str], sentence: str) -> None:
    api.kubectl("create", "secret", "generic", "prom", "--from-literal=token=abc")

    with pytest.raises(MetricsError, match=sentence):
        resolve(api, spec_of(tokenSecretRef=reference))


def test_the_operators_own_is_used_where_none_is_named(api: Api) -> None:
    """Without a Prometheus in the spec the operator's counts; without either it is reported."""
    assert resolve(api, None, "http://own") == Endpoint(("http://own",))
    with pytest.raises(MetricsError, match="no Prometheus is named"):
        resolve(api, None)
