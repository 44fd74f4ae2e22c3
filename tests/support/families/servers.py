"""The families' servers of a session: files that query the same family share its server."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.families.served import Servers


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Bring the tests of one family together, where the file has its first.

    Few servers are kept. In the order of the functions each test would start its family's again.
    """
    first: dict[tuple[str, object], int] = {}
    places = {
        item: first.setdefault((item.nodeid.partition("::")[0], _family(item) or item), at)
        for at, item in enumerate(items)
    }
    items.sort(key=places.__getitem__)


def _family(item: pytest.Item) -> object | None:
    if "servers" in getattr(item, "fixturenames", ()) and isinstance(item, pytest.Function):
        return item.callspec.params.get("served") if hasattr(item, "callspec") else None
    return None


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Servers]":
    from support.families.served import Servers  # noqa: PLC0415 (imports torch)

    servers = Servers(tmp_path_factory)
    try:
        yield servers
    finally:
        servers.close()
