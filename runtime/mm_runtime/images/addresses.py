"""Which IP addresses images may be fetched from: an address is public, or the reason why not.

The tables are IANA's special-purpose registries. Python's `ipaddress` is not used: its own lists
changed between patch releases (3.11.2 calls several special ranges global). IPv6 addresses that
carry an IPv4 address (mapped, NAT64, 6to4, Teredo) are judged by both.
"""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from mm_api.public_hosts import NOT_PUBLIC_V4

# Only 2000::/3 is allocated as global unicast; these are the special ranges inside it.
_GLOBAL_V6 = IPv6Network("2000::/3")
_REFUSED_V6: tuple[tuple[IPv6Network, str], ...] = tuple(
    (IPv6Network(network), reason)
    for network, reason in (
        ("2001::/23", "reserved for protocols"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4"),
        ("3fff::/20", "documentation"),
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")
_NAT64_LOCAL = IPv6Network("64:ff9b:1::/48")


def why_not_public(text: str) -> str | None:
    """Return why an address must not be connected to, or None when it is public.

    A zone (`%eth0`) means link-local and is refused.

    Raises:
        ValueError: not an IP address.
    """
    if "%" in text:
        return "link-local"
    address = ip_address(text)
    if isinstance(address, IPv4Address):
        return _why_not_public_v4(address)
    if address.ipv4_mapped is not None:
        return _why_not_public_v4(address.ipv4_mapped) or "IPv4-mapped IPv6"
    return _why_not_public_v6(address)


def _why_not_public_v6(address: IPv6Address) -> str | None:
    if address in _NAT64:
        # A NAT64 gateway turns it into the IPv4 address in the last 32 bits: public ones are fine,
        # they are how IPv6-only clusters reach the IPv4 internet.
        return _why_not_public_v4(IPv4Address(int(address) & 0xFFFF_FFFF))
    if address in _NAT64_LOCAL:
        return "NAT64 of a local network"
    if address not in _GLOBAL_V6:
        return _name_local_v6(address)
    return next((reason for network, reason in _REFUSED_V6 if address in network), None)


def _why_not_public_v4(address: IPv4Address) -> str | None:
    return next((reason for network, reason in NOT_PUBLIC_V4 if address in network), None)


def _name_local_v6(address: IPv6Address) -> str:
    if address.is_loopback:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    if address.is_multicast:
        return "multicast"
    return "private" if address in IPv6Network("fc00::/7") else "reserved"
