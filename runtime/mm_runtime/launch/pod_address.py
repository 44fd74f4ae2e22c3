"""Which family of addresses a server listens on that can listen on one only.

Triton 2.51's gRPC on 0.0.0.0 answers IPv6, too; its HTTP (evhtp) has one socket, for IPv4, or
behind `ipv6:` for IPv6 and no other.
"""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from mm_edge.listening import EVERYWHERE

HOSTS = Path("/etc/hosts")
"""The kubelet writes it: each address of the pod, the primary one first, with its host name."""


def listening_address(address: str) -> str:
    """Return where Triton's HTTP listens in this pod; see `one_family`."""
    try:
        hosts = HOSTS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return address
    return one_family(address, hosts, socket.gethostname())


def one_family(address: str, hosts: str, hostname: str) -> str:
    """Return the address to listen on: of everywhere, that of the pod's primary family.

    Services have one family by default, and that is the primary one of cluster and pods. `hosts`:
    text of `HOSTS`.
    """
    if address not in EVERYWHERE:
        return address
    primary = _address_of(hostname, hosts)
    if primary is None:
        return address
    return "::" if isinstance(primary, IPv6Address) else "0.0.0.0"  # noqa: S104


def _address_of(hostname: str, hosts: str) -> IPv4Address | IPv6Address | None:
    """Return the first address of a host; None where it has none but loopback."""
    for line in hosts.splitlines():
        address, *names = line.partition("#")[0].split() or ("",)
        if hostname not in names:
            continue
        try:
            found = ip_address(address)
        except ValueError:
            continue
        if not found.is_loopback:
            return found
    return None
