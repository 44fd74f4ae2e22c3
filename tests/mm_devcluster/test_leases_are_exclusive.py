"""Slots and stores are leased to one cluster at a time; no two slots share an address or a port."""

from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path

import pytest

from mm_devcluster.addresses import SLOTS, Family, network_of, ports_of
from mm_devcluster.errors import DevClusterError
from mm_devcluster.locks import acquire, delete
from mm_devcluster.node.store import lease_store, purge_store, store_path
from mm_devcluster.slots import lease_slot, try_lock
from support.cases import cases


def test_a_second_cluster_gets_the_next_slot(tmp_path: Path) -> None:
    first, second = (lease_slot(tmp_path, lambda _: True) for _ in range(2))
    numbers = (first.number, second.number)
    first.release()
    second.release()
    assert numbers == (0, 1)


def test_a_slot_whose_addresses_are_taken_is_skipped(tmp_path: Path) -> None:
    """Something else on the machine may use the range."""
    lease = lease_slot(tmp_path, lambda slot: slot >= 2)
    lease.release()
    assert lease.number == 2


def test_a_released_lock_can_be_taken(tmp_path: Path) -> None:
    first = try_lock(tmp_path / "lock")
    refused = try_lock(tmp_path / "lock")
    first.release()
    again = try_lock(tmp_path / "lock")
    again.release()
    assert refused is None


def test_no_free_slot_is_reported_with_a_message(tmp_path: Path) -> None:
    with pytest.raises(DevClusterError, match="mm-devcluster status --all"):
        lease_slot(tmp_path, lambda _: False)


@pytest.fixture(name="stores")
def three_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MM_CACHE_DIR", str(tmp_path))
    for number, size in enumerate((10, 30, 20)):
        blob = store_path(number) / "io.containerd.content.v1.content" / "blobs" / "x"
        blob.parent.mkdir(parents=True)
        blob.write_bytes(bytes(size))
    return tmp_path


@pytest.mark.usefixtures("stores")
def test_the_store_with_the_most_images_is_leased_first() -> None:
    """A cluster that starts alone finds the images of the one before it."""
    leases = [lease_store() for _ in range(3)]
    for lease in leases:
        lease.release()
    assert [lease.number for lease in leases] == [1, 2, 0]


@pytest.mark.usefixtures("stores")
def test_a_store_in_use_is_not_purged() -> None:
    lease = lease_store()
    with pytest.raises(RuntimeError, match="is in use by another cluster"):
        purge_store(lease.number)
    lease.release()
    purge_store(lease.number)
    assert not store_path(lease.number).exists()


def test_a_waiter_gets_the_lock_of_a_file_that_was_deleted(tmp_path: Path) -> None:
    """Deleting a lock file lets no one in beside the next holder."""
    path = tmp_path / "locks" / "a.lock"
    first = acquire(path, wait=True)
    assert first is not None
    with ThreadPoolExecutor() as pool:
        waiter = pool.submit(acquire, path, wait=True)
        delete(path, first, tmp_path / "locks")
        second = waiter.result(timeout=60)
    assert second is not None
    assert acquire(path, wait=False) is None
    delete(path, second, tmp_path / "locks")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("family", Family)
def test_no_two_slots_share_an_address(family: Family) -> None:
    ranges = [
        piece
        for slot in range(SLOTS)
        for network in [network_of(slot, family)]
        for piece in (network.link, network.services, network.pods)
    ]
    overlapping = [pair for pair in combinations(ranges, 2) if pair[0].overlaps(pair[1])]
    assert overlapping == []


def test_no_two_slots_share_a_port_or_an_interface() -> None:
    ports = [port for slot in range(SLOTS) for port in vars(ports_of(slot)).values()]
    interfaces = [network_of(slot).host_interface for slot in range(SLOTS)]
    assert (len(ports), len(interfaces)) == (len(set(ports)), len(set(interfaces)))


@cases(
    "family expected",
    {
        "IPv4": (Family.IPV4, ("10.96.0.1", "10.96.0.10", "10.99.0.2")),
        "IPv6": (Family.IPV6, ("fd00:10:96::1", "fd00:10:96::a", "[fd00:10:99::2]")),
    },
)
def test_the_first_slot_has_the_usual_addresses(
    family: Family, expected: tuple[str, str, str]
) -> None:
    """Slot 0 has the addresses that every Kubernetes tutorial shows, or their like in IPv6."""
    network = network_of(0, family)
    assert (str(network.api_service_ip), str(network.dns_ip), network.node_host) == expected


@pytest.mark.parametrize("slot", [-1, SLOTS], ids=["below", "above"])
def test_a_slot_out_of_range_is_refused(slot: int) -> None:
    with pytest.raises(ValueError, match=rf"slot {slot} is not in 0\.\.15"):
        network_of(slot)
