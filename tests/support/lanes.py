"""Which tests may run side by side: ``pytest -n 2 --dist loadgroup`` keeps a group in one process.

Whatever requests a cluster is one group: a session has one control plane and one node, and most
of that time is waiting, which the computing of all others fills. Files whose tests request one
server of a session are a group, so that it starts once and not in each process. Of the others a
file is a group, so that servers and engines of a module start once; tests marked with a group of
their own, which are many, are in that one.

The large groups come first, then files that start a server of their own: one that came last would
leave the other processes nothing to do.
"""

import gc
import os
from collections.abc import Iterator

import pytest

CLUSTERS = "clusters"
CLUSTER_FIXTURES = frozenset({"control_plane", "node_cluster"})
CLUSTER_MARKS = ("cluster", "e2e")
SERVERS = ("client", "real", "served", "servers")
"""Names of fixtures that start a server; which one it is depends on the folder."""


def pytest_configure(config: pytest.Config) -> None:
    """Keep the order of groups: pytest-xdist would begin with those of many quick tests."""
    config.option.loadscopereorder = False


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
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each test its group; side by side, those of several files come first."""
    servers: dict[str, str] = {}
    for item in items:
        if server := _server(item):
            servers.setdefault(_file(item), server)
    large = {CLUSTERS, *servers.values()}
    for item in items:
        if own := item.get_closest_marker("xdist_group"):
            large.add(str(own.args[0]))
            continue
        group = CLUSTERS if _needs_cluster(item) else servers.get(_file(item))
        item.add_marker(pytest.mark.xdist_group(group or _file(item)))
    if config.getoption("loadgroup", default=False):
        items.sort(
            key=lambda item: (_group(item) not in large, not item.get_closest_marker("triton"))
        )


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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail a test that leaves this process with another scheduling policy than Linux's default.

    All later tests and their servers would have it: as SCHED_FIFO they starve the other lanes.
    """
    yield
    if (policy := os.sched_getscheduler(0)) != os.SCHED_OTHER:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        pytest.fail(f"{item.nodeid} left the scheduling policy {policy}, expected {os.SCHED_OTHER}")


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _group(item: pytest.Item) -> str:
    (mark,) = item.iter_markers("xdist_group")
    return str(mark.args[0])


def _needs_cluster(item: pytest.Item) -> bool:
    marked = any(item.get_closest_marker(mark) for mark in CLUSTER_MARKS)
    return marked or not CLUSTER_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


def _server(item: pytest.Item) -> str | None:
    """Return which server of a session a test requests: name and folder of its fixture."""
    requested = getattr(item, "fixturenames", ())
    for name in SERVERS:
        if name in requested and isinstance(item, pytest.Function):
            *_, fixture = item._fixtureinfo.name2fixturedefs.get(name) or (None,)
            if fixture is not None and fixture.scope == "session":
                return f"{fixture.baseid}:{name}"
    return None
