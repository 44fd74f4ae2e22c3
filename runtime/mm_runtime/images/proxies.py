"""Which proxy a URL is fetched through, if any, and which hosts are not left to a proxy.

A proxy resolves names itself, so addresses cannot be checked here. What a URL spells can be: an
address that is not public, and names that only private networks have, are refused before.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from mm_api.contract import FetchProxyVariable
from mm_api.public_hosts import PRIVATE_DOMAINS
from mm_runtime.images.addresses import why_not_public
from mm_runtime.images.resolver import spelt_address
from mm_runtime.images.urls import Target


@dataclass(frozen=True, slots=True)
class FetchProxies:
    """Proxies by scheme, and hosts that are reached without one."""

    http: str = ""
    https: str = ""
    none_for: tuple[str, ...] = ()

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "FetchProxies":
        """Take them from variables of the container; without these there is none."""
        direct = environment.get(FetchProxyVariable.NONE_FOR, "")
        return cls(
            http=environment.get(FetchProxyVariable.HTTP, ""),
            https=environment.get(FetchProxyVariable.HTTPS, ""),
            none_for=tuple(filter(None, (one.strip().lower() for one in direct.split(",")))),
        )

    def of_target(self, target: Target) -> str:
        """Return the URL of the proxy for a target; empty: it is reached without one."""
        proxy = self.https if target.scheme == "https" else self.http
        if not proxy or any(_covers(one, target) for one in self.none_for):
            return ""
        return proxy


def why_not_through_a_proxy(host: str) -> str | None:
    """Return why a proxy must not be led to a host, in lower case without brackets, or None."""
    if entries := spelt_address(host):
        address = str(entries[0][4][0])
        if reason := why_not_public(address):
            return f"host {host!r} is an address that is not public ({reason})"
        # 010.8.8.8 is 8.8.8.8 here, and 10.8.8.8 for a program that reads it as decimal.
        if not _is_canonical(host):
            return f"host {host!r} is address {address} in another notation; write that one"
        return None
    labels = host.split(".")
    if len(labels) == 1 or labels[-1] in PRIVATE_DOMAINS:
        return f"host {host!r} is a name of a private network"
    return None


def _is_canonical(host: str) -> bool:
    try:
        return str(ip_address(host)) == host
    except ValueError:
        return False


def _covers(entry: str, target: Target) -> bool:
    """Return whether an entry of the list is the target's host, its domain or its network."""
    if entry == "*":
        return True
    try:
        network = ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        return _names(entry, target)
    try:
        return ip_address(target.host) in network
    except ValueError:
        return False


def _names(entry: str, target: Target) -> bool:
    host, _, port = entry.rpartition(":")
    if not port.isdigit():
        host, port = entry, ""
    if port and int(port) != target.port:
        return False
    domain = host.strip("[]").removeprefix("*").removeprefix(".")
    return target.host == domain or target.host.endswith(f".{domain}")
