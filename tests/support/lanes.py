"""Which tests may run side by side: ``pytest -n 2 --dist loadgroup`` keeps a group in one process.

Whatever requests a cluster is one group: a session has one control plane and one node, and most
of that time is waiting, which the computing of all others fills. Of the others a file is a
group, so that servers and engines of a module start once.
"""

import gc
from collections.abc import Iterator

import pytest

CLUSTER_FIXTURES = frozenset({"control_plane", "node_cluster"})
CLUSTER_MARKS = ("cluster", "e2e")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without the garbage collector: a third of the time, and all that is made stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()  # the tests' own collections need not look through it
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test its group."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))


@pytest.hookimpl
def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse to run side by side what is not grouped: two nodes at once, every server twice.

    pytest-xdist hands groups on as a part of node ids, which pytest 9.2 ignores silently.
    """
    if not session.config.getoption("loadgroup", default=False):
        return
    alone = [item.nodeid for item in session.items if not item.nodeid.endswith(f"@{_group(item)}")]
    if alone:
        raise pytest.UsageError(
            f"pytest-xdist did not group {len(alone)} tests, {alone[0]} for one: expected pytest"
            " below 9.2 (pytest-xdist #1386); run make env, or give -n 0"
        )


def _group(item: pytest.Item) -> str:
    marked = any(item.get_closest_marker(mark) for mark in CLUSTER_MARKS)
    if marked or not CLUSTER_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
        return "clusters"
    return item.location[0]
