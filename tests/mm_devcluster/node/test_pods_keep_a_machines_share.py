"""A cluster's pods have the weight of a machine, so that work beside them cannot starve them."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mm_devcluster.node.cgroups import (
    CGROUPS,
    PROCESSES_WORTH,
    cgroup_name,
    is_unified,
    make_cgroup,
    remove_cgroup,
)

pytestmark = pytest.mark.e2e


@pytest.fixture
def group() -> Iterator[str]:
    name = cgroup_name(f"weight-{os.getpid()}")
    make_cgroup(name)
    yield name
    remove_cgroup(name)


def weight(group: Path) -> float:
    if is_unified():
        return int((group / "cpu.weight").read_text()) / 100
    return int((group / "cpu.shares").read_text()) / 1024


def test_pods_weigh_more_than_one_process(group: str) -> None:
    """So many processes for each CPU; made again it is the same."""
    place = CGROUPS / group if is_unified() else CGROUPS / "cpu" / group
    expected = min(PROCESSES_WORTH * (os.cpu_count() or 1), 100)
    assert weight(place) == expected

    make_cgroup(group)
    assert weight(place) == expected
