"""What every remote source can do, and how one of them is opened."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mm_runtime.sources.address import BucketAddress, HubAddress


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file of a remote checkpoint."""

    name: str
    """Relative to the checkpoint, with slashes."""
    size: int
    version: str
    """Changes when the bytes do: a digest, or what the server calls an ETag."""
    sha256: str | None = None
    """Of the whole file, when the server tells it."""


class RemoteSource(Protocol):
    """A checkpoint that is not a directory. Errors are those of `mm_runtime.errors`."""

    @property
    def parallel_files(self) -> int:
        """How many downloads at a time are worth it."""

    @property
    def address(self) -> HubAddress | BucketAddress:
        """Where it lies, for messages."""

    @property
    def commit(self) -> str | None:
        """The commit a revision stands for; None for sources without history."""

    def files(self) -> list[RemoteFile]:
        """Return all files, sorted by name."""

    def read(self, file: RemoteFile, start: int, length: int) -> bytes:
        """Return bytes of a file; fewer only at its end."""

    def download(self, file: RemoteFile, partial: Path) -> str:
        """Append to `partial` what it lacks; on return it has the file's size.

        Returns:
            The SHA-256 of `partial`.
        """


def open_remote(
    address: HubAddress | BucketAddress, environment: Mapping[str, str]
) -> RemoteSource:
    """Return the source at an address; asks nobody yet."""
    if isinstance(address, HubAddress):
        from mm_runtime.sources.hub import HubSource  # noqa: PLC0415 (a client each, 0.3 s)

        return HubSource(address, environment)
    from mm_runtime.sources.bucket import BucketSource  # noqa: PLC0415 (the same)

    return BucketSource(address, environment)
