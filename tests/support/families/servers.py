"""The families' servers of a session: files that query the same family share its server."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.families.served import Servers


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Servers]":
    """No family at first."""
    from support.families.served import Servers  # noqa: PLC0415 (imports torch)

    servers = Servers(tmp_path_factory)
    try:
        yield servers
    finally:
        servers.close()
