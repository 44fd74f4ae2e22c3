"""Which addresses, ports and names a cluster gets from its slot number.

Clusters side by side differ in one small number, the slot; everything that could collide is
computed from it here, so that two slots never share an address.
"""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

SLOTS = 16  # /20 pieces of the two /16 ranges below
FIRST_PORT = 21000  # below Linux's ephemeral range (32768), above what services usually take
PORTS_PER_SLOT = 8

LINKS = IPv4Network("10.99.0.0/16")
SERVICES = IPv4Network("10.96.0.0/16")
PODS = IPv4Network("10.244.0.0/16")


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

    host_interface: str
    node_interface: str
    host_ip: IPv4Address
    node_ip: IPv4Address
    link: IPv4Network
    services: IPv4Network
    pods: IPv4Network

    @property
    def api_service_ip(self) -> IPv4Address:
        """ClusterIP of the ``kubernetes`` Service: the first of the range, by Kubernetes' rule."""
        return self.services[1]

    @property
    def dns_ip(self) -> IPv4Address:
        """ClusterIP of cluster DNS: the tenth, by kubeadm's habit."""
        return self.services[10]


def network_of(slot: int) -> Network:
    """Return the addresses of a slot.

    Raises:
        ValueError: The slot is out of range.
    """
    if not 0 <= slot < SLOTS:
        message = f"slot {slot} is not in 0..{SLOTS - 1}"
        raise ValueError(message)
    link = list(LINKS.subnets(new_prefix=24))[slot]
    return Network(
        host_interface=f"mmdev{slot}",
        node_interface=f"mmdev{slot}n",
        host_ip=link[1],
        node_ip=link[2],
        link=link,
        services=list(SERVICES.subnets(new_prefix=20))[slot],
        pods=list(PODS.subnets(new_prefix=20))[slot],
    )


def ports_of(slot: int) -> Ports:
    """Return the loopback ports of a slot, for a control plane without a node."""
    first = FIRST_PORT + slot * PORTS_PER_SLOT
    return Ports(*range(first, first + 5))
