"""Any source as a directory that inspect can read."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mm_runtime.sources.address import Address, ArchiveAddress, BucketAddress, HubAddress
from mm_runtime.sources.mirror import wanted_files, write_mirror
from mm_runtime.sources.remote import RemoteSource


@dataclass(frozen=True, slots=True)
class Checkout:
    """A directory with a checkpoint; weights may be hollow."""

    directory: Path
    commit: str | None = None
    shown: str = ""
    """How messages call the directory; empty: by its path."""

    def explain(self, message: str) -> str:
        return message.replace(str(self.directory), self.shown) if self.shown else message


@contextmanager
def checked_out(
    address: Address, environment: Mapping[str, str] | None = None, *, allow_pickle: bool = False
) -> Iterator[Checkout]:
    """Give a directory for a source; a hollow one, or an archive's, goes at the end.

    Raises:
        SourceNotFoundError: the remote source, or its revision, does not exist.
        SourceDeniedError: wrong credentials.
        SourceUnavailableError: its server is down.
    """
    variables = os.environ if environment is None else environment
    if isinstance(address, Path):
        yield Checkout(address)
        return
    if isinstance(address, ArchiveAddress):
        with open_archive(address, allow_pickle=allow_pickle) as folder:
            yield Checkout(folder, shown=str(address))
        return
    source = open_remote(address, variables)
    with tempfile.TemporaryDirectory(prefix="source-") as scratch:
        directory = Path(scratch) / "checkpoint"
        directory.mkdir()
        write_mirror(source, wanted_files(source), directory)
        yield Checkout(directory, source.commit, str(address))


@contextmanager
def open_archive(address: ArchiveAddress, *, allow_pickle: bool) -> Iterator[Path]:
    """Give the folder with an archive's checkpoint; it goes at the end."""
    from mm_runtime.sources.archive import unpack  # noqa: PLC0415 (a client, as below)

    with tempfile.TemporaryDirectory(prefix="source-") as scratch:
        yield unpack(address, Path(scratch), allow_pickle=allow_pickle)


def open_remote(
    address: HubAddress | BucketAddress, environment: Mapping[str, str]
) -> RemoteSource:
    """Return the source at an address; no request is sent yet."""
    if isinstance(address, HubAddress):
        from mm_runtime.sources.hub import HubSource  # noqa: PLC0415 (a client each, 0.3 s)

        return HubSource(address, environment)
    from mm_runtime.sources.bucket import BucketSource  # noqa: PLC0415 (the same)

    return BucketSource(address, environment)
