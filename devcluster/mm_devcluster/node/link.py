"""The veth pair between machine and node, and the machine's routes through it."""

import subprocess

from mm_devcluster.addresses import Family, Network


def make_link(network: Network, node_pid: int) -> None:
    """Join the node's network namespace to the machine.

    Routes for Services and pods go through the node, so that a test on the machine reaches
    ClusterIPs and pods directly. Nothing else does: the machine forwards no packets for the node.

    Args:
        network: Addresses and names.
        node_pid: A process in the node's network namespace.
    """
    host, node = network.host_interface, network.node_interface
    _ip("link", "add", host, "type", "veth", "peer", "name", node, "netns", str(node_pid))
    # No other machine is on this link: an IPv6 address can be used at once.
    known = ("nodad",) if network.family is Family.IPV6 else ()
    _ip("address", "add", f"{network.host_ip}/{network.link.prefixlen}", "dev", host, *known)
    _ip("link", "set", host, "up")
    for destination in (network.services, network.pods):
        _ip("route", "add", str(destination), "via", str(network.node_ip))


def remove_link(interface: str) -> None:
    """Remove the pair, and with it the routes; do nothing when it is gone already.

    The kernel removes it too when the node's namespace ends, a moment later and unwatched.
    """
    subprocess.run(
        ["ip", "link", "delete", interface], capture_output=True, timeout=30, check=False
    )


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=30)
