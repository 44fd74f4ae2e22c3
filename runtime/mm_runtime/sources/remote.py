"""What every remote source can do."""

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
    """Hash of the complete file, when the server reports it."""


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
        """Append to `partial` what it lacks; return the SHA-256 of all of it."""
