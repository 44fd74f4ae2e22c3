"""Which servers the operator queries for a spec that names them: those of the chart's list."""

import pytest
from pydantic import ValidationError

from mm_api.v1alpha1 import PrometheusSpec
from mm_operator.scaling.answers import MetricsError
from mm_operator.scaling.endpoints import Endpoints
from mm_operator.scaling.own_prometheus import OwnPrometheus, OwnPrometheusSettings
from mm_operator.scaling.prometheus import Endpoint
from support.cases import cases


@pytest.mark.parametrize(
    "address",
    [
        "http://169.254.169.254/latest/meta-data/iam#",
        "http://a/any?x=",
        "http://user@a",
        "http://user:word@a:9090",
        "http://a\\@b",
        "ftp://a",
        "HTTP://a",
        "http://",
        "http:///a",
        "http://a b",
        "http://a:123456",
        "http://a/b#c",
        "http://ä",
        "//a",
    ],
)
def test_forms_that_lead_elsewhere_are_refused(address: str) -> None:
    """What is behind ? or # would swallow the API's path; a user is for credentials' own field."""
    with pytest.raises(ValidationError, match="pattern"):
        PrometheusSpec.model_validate({"addresses": [address]})


@pytest.mark.parametrize(
    "address",
    [
        "http://prometheus.monitoring.svc:9090",
        "https://mimir.example/prometheus/",
        "http://10.96.0.10:9090",
        "http://192.168.1.2",
        "http://100.64.3.4:9090",
        "http://[fd00::1]:9090",
        "http://thanos_query:10902/a/b-c",
    ],
)
def test_servers_of_the_cluster_are_queried(address: str) -> None:
    """Private addresses are where Prometheus lives."""
    assert PrometheusSpec.model_validate({"addresses": [address]}).addresses == [address]


@cases(
    "address requested",
    {
        "exact": ("http://prometheus.monitoring.svc:9090", True),
        "spelled-otherwise": ("http://PROMETHEUS.monitoring.svc.:9090", True),
        "below": ("http://a.metrics.example", True),
        "not-below": ("http://metrics.example", False),
        "ends-alike": ("http://evilmetrics.example", False),
        "not-listed": ("http://10.0.0.1", False),
        "loopback-that-is-listed": ("http://127.0.0.1:9090", True),
        "v6-that-is-listed": ("http://[fd00::1]:9090", True),
    },
)
async def test_hosts_are_those_that_the_chart_lists(*, address: str, requested: bool) -> None:
    listed = ("prometheus.monitoring.svc", "*.metrics.example", "127.0.0.1", "fd00::1")
    endpoints = Endpoints(OwnPrometheus(OwnPrometheusSettings()), listed)
    spec = PrometheusSpec.model_validate({"addresses": [address], "matchLabels": {"cluster": "a"}})
    if requested:
        expected = Endpoint((address,), match_labels=(("cluster", "a"),))
        assert await endpoints.resolve(spec) == expected
    else:
        with pytest.raises(MetricsError, match=r"not in the chart value prometheus\.allowedHosts"):
            await endpoints.resolve(spec)


async def test_the_operators_own_is_used_where_none_is_named() -> None:
    own = OwnPrometheus(OwnPrometheusSettings(addresses=("http://own",)))

    assert await Endpoints(own).resolve(None) == Endpoint(("http://own",))
    with pytest.raises(MetricsError, match="no Prometheus is named"):
        await Endpoints(OwnPrometheus(OwnPrometheusSettings())).resolve(None)
