"""Which servers that a model's spec names the operator queries. Pure.

Prometheus lives in the cluster, so private addresses are allowed. What only the operator's own pod
or node can reach is not: loopback, link-local, the metadata services of clouds.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

from mm_api.sentences import a

_METADATA = frozenset(
    map(
        ip_address,
        (
            "100.100.100.200",  # Alibaba Cloud
            "168.63.129.16",  # Azure
            "192.0.0.192",  # Oracle Cloud
            "fd00:ec2::254",  # AWS
            "fd20:ce::254",  # Google Cloud
        ),
    )
)
"""Those outside 169.254.0.0/16."""

_NO_HOST_V4 = (IPv4Network("0.0.0.0/8"), IPv4Network("240.0.0.0/4"))
_NAT64 = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")


def why_not_queried(address: str, allowed: Sequence[str]) -> str:
    """Return why the operator does not query a base address of a spec; empty when it may.

    Args:
        address: as the type of `spec.autoscaling.prometheus.addresses` admits it.
        allowed: hosts that an administrator listed, or `*.name` for names below one; empty: all.
    """
    host = (urlsplit(address).hostname or "").rstrip(".")
    if allowed:
        listed = is_listed(address, allowed)
        return "" if listed else "its host is not in the operator's list of allowed hosts"
    if ":" not in host and not host.replace(".", "").isdigit():
        return ""  # a name: judged by the addresses that it has, when it is resolved
    return why_not_reached(host)


def is_listed(address: str, allowed: Sequence[str]) -> bool:
    """Return whether an administrator listed the host of a base address."""
    host = (urlsplit(address).hostname or "").rstrip(".")
    patterns = [pattern.lower().rstrip(".") for pattern in allowed]
    return any(
        host.endswith(one[1:]) if one.startswith("*.") else host == one.strip("[]")
        for one in patterns
    )


def why_not_reached(text: str) -> str:
    """Return why no connection is made to an IP address; empty when it may be.

    An IPv6 address that carries an IPv4 address is judged by that one.
    """
    try:
        address = ip_address(text)
    except ValueError:
        # Digits in another form, such as 2130706433, would be read as an address by the system.
        return "it is not an IP address in its usual form"
    if isinstance(address, IPv6Address):
        address = _carried(address) or address
    if isinstance(address, IPv4Address) and any(address in net for net in _NO_HOST_V4):
        return "it is not an address of a host"
    if address in _METADATA:
        return "it is a cloud's metadata service"
    for holds, what in (
        (address.is_loopback, "loopback"),
        (address.is_link_local, "link-local"),
        (address.is_multicast, "multicast"),
        (address.is_unspecified, "unspecified"),
    ):
        if holds:
            return f"it is {a(what)} address"
    return ""


def _carried(address: IPv6Address) -> IPv4Address | None:
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
