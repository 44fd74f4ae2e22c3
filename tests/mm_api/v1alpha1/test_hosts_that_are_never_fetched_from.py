"""A host of `gateway.allowedHosts` that is always refused is refused when it is written."""

import re
from ipaddress import IPv4Address
from random import Random
from typing import Any

import pytest

from mm_api.public_hosts import NEVER_PUBLIC, NOT_PUBLIC_V4
from mm_api.v1alpha1.validation import validate
from support.model_documents import at, document
from support.model_namespace import Api


def model(host: str, *, private: bool = False) -> dict[str, Any]:
    hosts = ["images.example.org", host]
    return document(at("gateway", {"allowedHosts": hosts, "allowPrivateNetworks": private}))


NEVER = [
    *("169.254.169.254", "169.254.0.1", "127.0.0.1", "127.1.2.3", "0.0.0.1", "10.1.2.3"),
    *("172.16.0.1", "172.31.255.255", "192.168.0.1", "100.64.0.1", "100.127.0.1", "192.0.0.192"),
    *("168.63.129.16", "224.0.0.1", "255.255.255.255", "198.18.0.1", "203.0.113.9"),
    *("localhost", "images.localhost", "*.localhost", "metadata.google.internal", "*.internal"),
    *("images.default.svc", "images.default.svc.cluster.local", "*.cluster.local", "images"),
    *("host.docker.internal", "printer.lan", "router.home", "1.0.0.127.in-addr.arpa"),
]
OTHER_NOTATIONS = [
    *("2130706433", "0177.0.0.1", "127.1", "0x7f.0.0.1", "0x7f000001", "010.8.8.8", "8.8.8"),
    *("8.8.8.256", "*.169.254", "*.10"),
]
TAKEN = [
    *("8.8.8.8", "100.63.0.1", "100.128.0.1", "172.15.0.1", "172.32.0.1", "192.169.0.1"),
    *("169.253.0.1", "126.0.0.1", "128.0.0.1", "223.255.255.255", "images.example.org"),
    *("*.example.org", "*.com", "internal.example.org", "localhost.example.org", "10.example.org"),
    *("mylocal.org", "a.notlocal", "10-0-0-1.example.org"),
]
MALFORMED = ["LOCALHOST", "http://a.example", "a.example:80", "[::1]", "::1", "fd00:ec2::254", "*"]


@pytest.mark.parametrize("host", NEVER)
def test_a_host_that_is_never_public(host: str) -> None:
    (problem,) = validate(model(host))
    assert (problem.path, "never fetched from" in problem.message) == (
        "spec.gateway.allowedHosts",
        True,
    )


@pytest.mark.parametrize("host", OTHER_NOTATIONS)
def test_an_address_in_another_notation(host: str) -> None:
    """Decimal, octal, hexadecimal and short forms, also where private networks are allowed."""
    for private in (False, True):
        found = [
            one for one in validate(model(host, private=private)) if "four numbers" in one.message
        ]
        assert [one.path for one in found] == ["spec.gateway.allowedHosts"]


@pytest.mark.parametrize("host", TAKEN)
def test_a_host_that_may_be_public(host: str) -> None:
    """Neighbours of the ranges, and names that only look like private ones."""
    assert validate(model(host)) == []


@pytest.mark.parametrize("host", NEVER)
def test_private_networks_may_be_allowed(host: str) -> None:
    assert validate(model(host, private=True)) == []


@pytest.mark.parametrize("host", MALFORMED)
def test_what_is_no_host(host: str) -> None:
    """Schemes, ports, capitals, brackets and IPv6 addresses have no place in the list."""
    (problem,) = validate(model(host))
    assert problem.path == "spec.gateway.allowedHosts[1]"


def test_the_pattern_is_the_table() -> None:
    """Ends and neighbours of each range, and addresses at random, are judged alike by both."""
    random = Random(1)  # noqa: S311  # no secret
    edges = {
        int(network[at_]) + step
        for network, _ in NOT_PUBLIC_V4
        for at_ in (0, -1)
        for step in (-1, 0, 1)
    }
    drawn = [random.getrandbits(32) for _ in range(2000)]
    for number in (*(one for one in edges if 0 <= one < 1 << 32), *drawn):
        address = IPv4Address(number)
        listed = any(address in network for network, _ in NOT_PUBLIC_V4)
        assert bool(re.search(NEVER_PUBLIC, str(address))) == listed, address


@pytest.mark.cluster
def test_the_api_server_judges_alike(api: Api) -> None:
    models = [model(host) for host in (*NEVER, *OTHER_NOTATIONS)]
    for one, said in zip(models, api.refusals(models), strict=True):
        assert "spec.gateway.allowedHosts: Invalid value" in said
        assert all(problem.message in said for problem in validate(one)), said
    assert all(
        "spec.gateway.allowedHosts[1]" in said for said in api.refusals(map(model, MALFORMED))
    )
    assert api.refusals([document(at("gateway", {"allowedHosts": TAKEN}))]) == [""]
