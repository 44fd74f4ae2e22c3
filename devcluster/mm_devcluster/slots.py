"""Lease a slot number, so that clusters side by side never share addresses or ports.

The lease is a lock on a file: it is held by the owner of the open file, passes on to the
cluster's first process, and is gone the moment that process is, however it ends.
"""

import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterable
from ipaddress import ip_network
from pathlib import Path

from mm_devcluster.addresses import SLOTS, Family, Network, Range, ports_of
from mm_devcluster.errors import DevClusterError
from mm_devcluster.locks import acquire, delete
from mm_devcluster.paths import state_dir


class Lease:
    """An exclusive lock on a file; ``descriptor`` may be inherited by another process."""

    def __init__(self, path: Path, number: int, descriptor: int) -> None:
        self.path = path
        self.number = number
        self.descriptor = descriptor

    def release(self) -> None:
        """Close our copy. The lock lives on while another process holds one."""
        os.close(self.descriptor)

    def discard(self, top: Path) -> None:
        """Release it and delete its file, and directories up to ``top`` that are then empty."""
        delete(self.path, self.descriptor, top)


def try_lock(path: Path, number: int = 0) -> Lease | None:
    """Lock a file without waiting, making it if needed; None when another process holds it."""
    descriptor = acquire(path, wait=False)
    return None if descriptor is None else Lease(path, number, descriptor)


def lease_slot(directory: Path, free: Callable[[int], bool]) -> Lease:
    """Lease the first slot that is not held and whose addresses are free.

    Args:
        directory: Where the lock files lie.
        free: Returns whether a slot's addresses or ports are unused on this machine; something
            other than us may use them.

    Raises:
        DevClusterError: Every slot is taken.
    """
    for number in range(SLOTS):
        lease = try_lock(directory / f"{number}.lock", number)
        if lease is None:
            continue
        if free(number):
            return lease
        lease.release()
    message = (
        f"all {SLOTS} address ranges are in use; stop a cluster (mm-devcluster status --all "
        "lists them) or free the ranges 10.96.0.0/16, 10.99.0.0/16 and 10.244.0.0/16"
    )
    raise DevClusterError(message)


def slots_dir(*, with_node: bool) -> Path:
    """Return where the slots of one kind are leased: networks, or ports on loopback."""
    return state_dir() / "slots" / ("networks" if with_node else "ports")


def tidy_slot(number: int, *, with_node: bool) -> None:
    """Delete the lock file of a slot whose cluster has ended, unless it was leased again."""
    lease = try_lock(slots_dir(with_node=with_node) / f"{number}.lock", number)
    if lease is not None:
        lease.discard(state_dir())


def ports_are_free(slot: int) -> bool:
    """Return whether every loopback port of a slot can be bound now."""
    ports = ports_of(slot)
    return all(
        _can_bind(port)
        for port in (
            ports.etcd,
            ports.etcd_peer,
            ports.apiserver,
            ports.controller_manager,
            ports.scheduler,
        )
    )


def network_is_free(network: Network) -> bool:
    """Return whether no route of this machine overlaps a slot's ranges."""
    wanted = (network.link, network.services, network.pods)
    return not any(route.overlaps(want) for route in _routes(network.family) for want in wanted)


def _can_bind(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _routes(family: Family) -> Iterable[Range]:
    listing = subprocess.run(
        ["ip", "-json", "-6" if family is Family.IPV6 else "-4", "route", "show", "table", "all"],
        check=True,
        capture_output=True,
        timeout=10,
    )
    for route in json.loads(listing.stdout or b"[]"):
        if route["dst"] != "default" and route.get("type", "unicast") == "unicast":
            yield ip_network(route["dst"], strict=False)
