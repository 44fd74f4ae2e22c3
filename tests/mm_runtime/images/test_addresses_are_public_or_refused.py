"""Which addresses count as public, in every spelling an address has."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mm_runtime.images.addresses import why_not_public

REFUSED_V4 = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "224.0.0.0/4",
    "240.0.0.0/4",
]
REFUSED_V6 = [
    "::/128",
    "::1/128",
    "100::/64",
    "2001::/32",
    "2001:db8::/32",
    "2002::/16",
    "64:ff9b:1::/48",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
]


def _inside(network: IPv4Network | IPv6Network) -> st.SearchStrategy[int]:
    return st.integers(int(network.network_address), int(network.broadcast_address))


@pytest.mark.parametrize("network", REFUSED_V4)
@settings(max_examples=25)
@given(data=st.data())
def test_special_ipv4_ranges_are_refused(network: str, data: st.DataObject) -> None:
    address = IPv4Address(data.draw(_inside(IPv4Network(network))))
    mapped = IPv6Address((0xFFFF << 32) | int(address))
    translated = IPv6Address(int(IPv6Address("64:ff9b::")) | int(address))
    for spelling in (address, mapped, mapped.exploded, translated):
        assert why_not_public(str(spelling)) is not None


@pytest.mark.parametrize("network", REFUSED_V6)
@settings(max_examples=25)
@given(data=st.data())
def test_special_ipv6_ranges_are_refused(network: str, data: st.DataObject) -> None:
    address = IPv6Address(data.draw(_inside(IPv6Network(network))))
    assert why_not_public(str(address)) is not None


@given(st.ip_addresses(v=6))
def test_only_allocated_global_unicast_ipv6_is_public(address: IPv6Address) -> None:
    if why_not_public(str(address)) is None:
        assert address in IPv6Network("2000::/3") or address in IPv6Network("64:ff9b::/96")


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "93.184.216.34",
        "172.32.0.1",
        "100.128.0.1",
        "2606:4700::1111",
        "64:ff9b::101:101",
    ],
)
def test_public_addresses_pass(address: str) -> None:
    assert why_not_public(address) is None


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("169.254.169.254", "metadata"),
        ("168.63.129.16", "metadata"),
        ("127.0.0.1", "loopback"),
        ("::1", "loopback"),
        ("::ffff:10.0.0.1", "private"),
        ("64:ff9b::a9fe:a9fe", "metadata"),
        ("fe80::1%eth0", "link-local"),
        ("fd00:ec2::254", "private"),
        ("ff02::1", "multicast"),
    ],
)
def test_the_reason_is_named(address: str, reason: str) -> None:
    assert reason in (why_not_public(address) or "")


def test_a_name_is_no_address() -> None:
    with pytest.raises(ValueError, match="localhost"):
        why_not_public("localhost")
