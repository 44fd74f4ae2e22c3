"""Hosts that never have a public address: what the gateway does not fetch images from, as tables.

The gateway judges the addresses that a name resolves to; a spec's own list of hosts is judged by
what it spells. IANA's special-purpose registry of IPv4 is the table of both.
"""

from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Final

NOT_PUBLIC_V4: Final[tuple[tuple[IPv4Network, str], ...]] = tuple(
    (IPv4Network(network), reason)
    for network, reason in (
        ("0.0.0.0/8", "this network"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "a cloud's metadata service"),
        ("169.254.0.0/16", "link-local, where clouds keep their metadata service"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)

PRIVATE_DOMAINS: Final = frozenset(
    {"localhost", "local", "internal", "arpa", "intranet", "private", "corp", "home", "lan", "svc"}
)
"""Last labels of names that no public name server has: RFC 6761, RFC 6762 (with its appendix G),
RFC 8375, ICANN's `internal`, and Kubernetes' short names of Services."""

_BYTE: Final = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"

IPV4: Final = rf"^{_BYTE}(?:[.]{_BYTE}){{3}}$"
"""An IPv4 address in the one notation that every program reads alike."""

ENDS_IN_A_NUMBER: Final = "^(?:.*[.])?(?:[0-9]+|0x[0-9a-f]*)$"
"""No name does (WHATWG's URL standard): it is an address, in whatever notation."""


def _ranges() -> Iterator[str]:
    for network, _ in NOT_PUBLIC_V4:
        full, bits = divmod(network.prefixlen, 8)
        octets = network.network_address.packed
        parts = [str(one) for one in octets[:full]]
        if bits:
            several = range(octets[full], octets[full] + (1 << (8 - bits)))
            parts.append(f"(?:{'|'.join(map(str, several))})")
        parts += [_BYTE] * (4 - len(parts))
        yield "[.]".join(parts)


NEVER_PUBLIC: Final = (
    f"^(?:{'|'.join(_ranges())})$|^[^.*]+$|(?:^|[.])(?:{'|'.join(sorted(PRIVATE_DOMAINS))})$"
)
"""Addresses that are not public, names of one label, and names below a private domain."""
