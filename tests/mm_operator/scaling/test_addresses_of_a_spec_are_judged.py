"""Which servers the operator queries for a spec that names them: the cluster's, not its own."""

import pytest
from pydantic import ValidationError

from mm_api.v1alpha1 import PrometheusSpec
from mm_operator.scaling.answers import MetricsError
from mm_operator.scaling.endpoints import Endpoints
from mm_operator.scaling.own_prometheus import OwnPrometheus, OwnPrometheusSettings
from mm_operator.scaling.peers import why_not_queried, why_not_reached
from mm_operator.scaling.resolver import JudgingResolver
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
    assert why_not_queried(address, ()) == ""


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("127.0.0.1", "loopback"),
        ("127.9.9.9", "loopback"),
        ("[::1]", "loopback"),
        ("[::ffff:127.0.0.1]", "loopback"),
        ("[::127.0.0.1]", "loopback"),
        ("[64:ff9b::7f00:1]", "loopback"),
        ("[2002:7f00:1::]", "loopback"),
        ("2130706433", "usual form"),
        ("127.1", "usual form"),
        ("0.0.0.0", "not an address of a host"),  # noqa: S104  # an address to refuse
        ("[::]", "unspecified"),
        ("169.254.169.254", "link-local"),
        ("169.254.169.254.", "link-local"),
        ("[::ffff:169.254.169.254]", "link-local"),
        ("[fe80::1]", "link-local"),
        ("[fd00:ec2::254]", "metadata"),
        ("[fd20:ce::254]", "metadata"),
        ("100.100.100.200", "metadata"),
        ("168.63.129.16", "metadata"),
        ("224.0.0.1", "multicast"),
        ("255.255.255.255", "not an address of a host"),
    ],
)
def test_what_only_the_operator_reaches_is_not_queried(host: str, why: str) -> None:
    """Its own pod, its node's link, and metadata services, in every spelling."""
    assert why in why_not_queried(f"http://{host}:9090/x", ())


@pytest.mark.parametrize("name", ["localhost", "0x7f.1", "0177.0.0.1", "0x7f000001"])
async def test_a_name_is_judged_by_its_addresses(name: str) -> None:
    """Whatever the system's resolver makes of a name: the address that it gives is judged."""
    with pytest.raises(OSError, match="is refused: it is a loopback address"):
        await JudgingResolver().resolve(name, 9090)


def test_numbers_of_a_zone_are_judged() -> None:
    assert "link-local" in why_not_reached("fe80::1%eth0")


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
async def test_an_administrator_may_list_the_only_hosts(address: str, requested: bool) -> None:  # noqa: FBT001
    """Chart value prometheus.allowedHosts: nothing else is queried, these wherever they are."""
    listed = ("prometheus.monitoring.svc", "*.metrics.example", "127.0.0.1", "fd00::1")
    absent: object = None
    endpoints = Endpoints(absent, OwnPrometheus(OwnPrometheusSettings()), listed)  # type: ignore[arg-type]  # reads no Secret
    spec = PrometheusSpec.model_validate({"addresses": [address]})
    if requested:
        assert (await endpoints.resolve("demo", spec)).of_tenant is False
    else:
        with pytest.raises(MetricsError, match="not in the operator's list of allowed hosts"):
            await endpoints.resolve("demo", spec)
