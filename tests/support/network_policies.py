"""What a NetworkPolicy lets through, by the rules of the API's reference, without a network.

The development cluster stores policies and enforces none. Peers of `ipBlock` are matched by
address; named ports by the names that the caller gives.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any, Literal


@dataclass(frozen=True)
class Peer:
    """A pod with the labels of its namespace, or an address outside of the cluster."""

    labels: Mapping[str, str] = field(default_factory=dict)
    namespace: str = ""
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    address: str = ""


Direction = Literal["ingress", "egress"]


def allows(
    policies: Sequence[Mapping[str, Any]],
    pod: Peer,
    direction: Direction,
    other: Peer,
    *,
    port: int | str,
    protocol: str = "TCP",
) -> bool:
    """Return whether a pod may be reached by (ingress) or reach (egress) another one.

    A pod that no policy of the direction selects is open.
    """
    chosen = [
        policy
        for policy in policies
        if policy["metadata"]["namespace"] == pod.namespace
        and direction.capitalize() in policy["spec"]["policyTypes"]
        and selects(policy["spec"]["podSelector"], pod.labels)
    ]
    if not chosen:
        return True
    return any(
        _ports(rule, port, protocol) and _peers(rule, direction, policy, other)
        for policy in chosen
        for rule in policy["spec"].get(direction) or ()
    )


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    wanted: Mapping[str, str] = selector.get("matchLabels") or {}
    if any(labels.get(name) != value for name, value in wanted.items()):
        return False
    return all(_expression(one, labels) for one in selector.get("matchExpressions") or ())


def _expression(one: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(one["key"])
    match one["operator"]:
        case "In":
            return value in one["values"]
        case "NotIn":
            return value not in one["values"]
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    raise AssertionError(f"no such operator: {one['operator']}")


def _ports(rule: Mapping[str, Any], port: int | str, protocol: str) -> bool:
    listed = rule.get("ports") or ()
    if not listed:
        return True
    return any(
        one.get("protocol", "TCP") == protocol and one.get("port", port) == port for one in listed
    )


def _peers(
    rule: Mapping[str, Any], direction: Direction, policy: Mapping[str, Any], other: Peer
) -> bool:
    listed = rule.get("from" if direction == "ingress" else "to") or ()
    if not listed:
        return True
    return any(_peer(one, policy["metadata"]["namespace"], other) for one in listed)


def _peer(one: Mapping[str, Any], home: str, other: Peer) -> bool:
    if "ipBlock" in one:
        if not other.address:
            return False
        inside = ip_address(other.address) in ip_network(one["ipBlock"]["cidr"])
        excluded = one["ipBlock"].get("except") or ()
        return inside and not any(ip_address(other.address) in ip_network(x) for x in excluded)
    if other.address:
        return False
    if "namespaceSelector" in one:
        if not selects(one["namespaceSelector"], other.namespace_labels):
            return False
    elif other.namespace != home:
        return False
    return selects(one.get("podSelector") or {}, other.labels)
