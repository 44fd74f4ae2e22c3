"""Clusters side by side get addresses and ports that no other slot has."""

from itertools import combinations

import pytest

from mm_devcluster.addresses import SLOTS, Family, network_of, ports_of
from support.cases import cases


@pytest.mark.parametrize("family", Family)
def test_no_two_slots_share_an_address(family: Family) -> None:
    ranges = [
        piece
        for slot in range(SLOTS)
        for network in [network_of(slot, family)]
        for piece in (network.link, network.services, network.pods)
    ]
    overlapping = [pair for pair in combinations(ranges, 2) if pair[0].overlaps(pair[1])]
    assert overlapping == []


def test_no_two_slots_share_a_port_or_an_interface() -> None:
    ports = [port for slot in range(SLOTS) for port in vars(ports_of(slot)).values()]
    interfaces = [network_of(slot).host_interface for slot in range(SLOTS)]
    assert (len(ports), len(interfaces)) == (len(set(ports)), len(set(interfaces)))


@cases(
    "family expected",
    {
        "IPv4": (Family.IPV4, ("10.96.0.1", "10.96.0.10", "10.99.0.2")),
        "IPv6": (Family.IPV6, ("fd00:10:96::1", "fd00:10:96::a", "[fd00:10:99::2]")),
    },
)
def test_the_first_slot_has_the_usual_addresses(
    family: Family, expected: tuple[str, str, str]
) -> None:
    """Slot 0 has the addresses that every Kubernetes tutorial shows, or their like in IPv6."""
    network = network_of(0, family)
    assert (str(network.api_service_ip), str(network.dns_ip), network.node_host) == expected


@pytest.mark.parametrize("slot", [-1, SLOTS], ids=["below", "above"])
def test_a_slot_out_of_range_is_refused(slot: int) -> None:
    with pytest.raises(ValueError, match=rf"slot {slot} is not in 0\.\.15"):
        network_of(slot)
