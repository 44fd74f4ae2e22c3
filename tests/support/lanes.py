"""Which tests may run side by side: ``pytest -n 2 --dist loadgroup`` keeps a group in one process.

Whatever asks for a cluster is one group: a session has one control plane and one node, and most
of that time is waiting, which the computing of all others fills. Of the others a file is a
group, so that servers and engines of a module start once.
"""

import pytest

CLUSTER_FIXTURES = frozenset({"control_plane", "node_cluster"})
CLUSTER_MARKS = ("cluster", "e2e")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test its group."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))


def _group(item: pytest.Item) -> str:
    marked = any(item.get_closest_marker(mark) for mark in CLUSTER_MARKS)
    if marked or not CLUSTER_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
        return "clusters"
    return item.nodeid.partition("::")[0]
