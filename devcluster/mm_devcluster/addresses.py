"""Which addresses, ports and names a cluster gets from its slot number.

Clusters side by side differ in one small number, the slot; everything that could collide is
computed from it here, so that two slots never share an address.
"""

from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final

from mm_api.hosts import bracketed

Address = IPv4Address | IPv6Address
Range = IPv4Network | IPv6Network

SLOTS = 16
FIRST_PORT = 21000  # below Linux's ephemeral range (32768), above what services usually take
PORTS_PER_SLOT = 8


class Family(StrEnum):
    """Which addresses node, pods and Services of a cluster have: one family, not both."""

    IPV4 = "IPv4"
    IPV6 = "IPv6"


@dataclass(frozen=True)
class Ranges:
    """Where the slots' ranges are cut from, and how long their prefixes are."""

    links: Range
    link: int
    services: Range
    service: int
    pods: Range
    pod: int
    node: int
    """Prefix of the part of the pods' range that the one node gets."""


RANGES: Final = {
    Family.IPV4: Ranges(
        links=ip_network("10.99.0.0/16"),
        link=24,
        services=ip_network("10.96.0.0/16"),
        service=20,
        pods=ip_network("10.244.0.0/16"),
        pod=20,
        node=24,
    ),
    # Unique local addresses; Services get 16 bits of a range, of the 20 that the API server takes,
    # and a node the /64 that the controller-manager gives by default.
    Family.IPV6: Ranges(
        links=ip_network("fd00:10:99::/60"),
        link=64,
        services=ip_network("fd00:10:96::/108"),
        service=112,
        pods=ip_network("fd00:10:244::/52"),
        pod=56,
        node=64,
    ),
}


@dataclass(frozen=True)
class Ports:
    """TCP ports of a cluster. In its own network namespace every cluster uses the usual ones."""

    etcd: int
    etcd_peer: int
    apiserver: int
    controller_manager: int
    scheduler: int


NODE_PORTS = Ports(2379, 2380, 6443, 10257, 10259)


@dataclass(frozen=True)
class Network:
    """The addresses of a cluster with a node."""

    family: Family
    host_interface: str
    node_interface: str
    host_ip: Address
    node_ip: Address
    link: Range
    services: Range
    pods: Range
    node_pods: Range
    """Pod addresses of the node: it is the only one, so the first piece of the pods' range."""

    @property
    def everything(self) -> str:
        """Destination of a default route."""
        return "::/0" if self.family is Family.IPV6 else "0.0.0.0/0"

    @property
    def everywhere(self) -> str:
        """Address of a server that listens on all of the node's."""
        return "::" if self.family is Family.IPV6 else "0.0.0.0"  # noqa: S104 (in the node)

    @property
    def node_host(self) -> str:
        """The node's address as URLs have it."""
        return bracketed(str(self.node_ip))

    @property
    def api_service_ip(self) -> Address:
        """ClusterIP of the ``kubernetes`` Service: the first of the range, by Kubernetes' rule."""
        return self.services[1]

    @property
    def dns_ip(self) -> Address:
        """ClusterIP of cluster DNS: the tenth, by kubeadm's habit."""
        return self.services[10]


def network_of(slot: int, family: Family = Family.IPV4) -> Network:
    """Return the addresses of a slot, of one family.

    Raises:
        ValueError: The slot is out of range.
    """
    if not 0 <= slot < SLOTS:
        message = f"slot {slot} is not in 0..{SLOTS - 1}"
        raise ValueError(message)
    ranges = RANGES[family]
    link = _piece(ranges.links, ranges.link, slot)
    pods = _piece(ranges.pods, ranges.pod, slot)
    return Network(
        family=family,
        host_interface=f"mmdev{slot}",
        node_interface=f"mmdev{slot}n",
        host_ip=link[1],
        node_ip=link[2],
        link=link,
        services=_piece(ranges.services, ranges.service, slot),
        pods=pods,
        node_pods=_piece(pods, ranges.node, 0),
    )


def _piece(wider: Range, prefix: int, number: int) -> Range:
    first = int(wider.network_address) + (number << (wider.max_prefixlen - prefix))
    return ip_network((first, prefix))


def ports_of(slot: int) -> Ports:
    """Return the loopback ports of a slot, for a control plane without a node."""
    first = FIRST_PORT + slot * PORTS_PER_SLOT
    return Ports(*range(first, first + 5))
