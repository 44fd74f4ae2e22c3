"""Slots and stores are leased to one cluster at a time, and come back when it ends."""

from pathlib import Path

import pytest

from mm_devcluster.errors import DevClusterError
from mm_devcluster.slots import lease_slot, try_lock


def test_a_second_cluster_gets_the_next_slot(tmp_path: Path) -> None:
    """What is leased is not leased again."""
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
    """Closing the last descriptor gives the lease back."""
    first = try_lock(tmp_path / "lock")
    assert first is not None
    refused = try_lock(tmp_path / "lock")
    first.release()
    again = try_lock(tmp_path / "lock")
    assert again is not None
    again.release()
    assert refused is None


def test_no_free_slot_is_said_in_words(tmp_path: Path) -> None:
    """The message names the ranges and the command that lists clusters."""
    with pytest.raises(DevClusterError, match="mm-devcluster status --all"):
        lease_slot(tmp_path, lambda _: False)
