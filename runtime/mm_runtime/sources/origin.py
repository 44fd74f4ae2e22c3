"""Where a build fetches from: the files of a checkpoint, and how one of them is copied."""

import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from mm_runtime.base.containment import open_contained
from mm_runtime.base.resumable_file import PIECE_BYTES, ResumableFile
from mm_runtime.errors import SourceNotFoundError, SourceUnavailableError
from mm_runtime.sources.address import Address, ArchiveAddress, HubAddress
from mm_runtime.sources.checkout import open_archive, open_remote
from mm_runtime.sources.identity import files_digest, source_files
from mm_runtime.sources.mirror import wanted_files, write_hollow, write_mirror
from mm_runtime.sources.remote import RemoteFile, RemoteSource

PARTIAL = ".partial"
"""End of the name of a file that is not complete yet."""


@dataclass(frozen=True, slots=True)
class DirectoryOrigin:
    """A directory, read from its first byte each time: a disk is quick."""

    files: Mapping[str, Path]
    parallel_files: int = 1

    @property
    def sizes(self) -> Mapping[str, int]:
        """Name -> bytes of the files that make up the checkpoint."""
        return {name: path.stat().st_size for name, path in self.files.items()}

    def digest(self) -> str | None:
        return files_digest(self.files)

    def partial(self, name: str, destination: Path) -> Path:
        del name
        return destination.with_name(destination.name + PARTIAL)

    def copy(self, name: str, destination: Path) -> str:
        """Copy one file, completely or not at all; return the SHA-256 of what was read."""
        partial = self.partial(name, destination)
        partial.unlink(missing_ok=True)
        with open_contained(self.files[name]) as reader, ResumableFile(partial) as writer:
            while piece := reader.read(PIECE_BYTES):
                writer.write(piece)
            digest = writer.finish()
        partial.rename(destination)
        return digest


@dataclass(frozen=True, slots=True)
class RemoteOrigin:
    """A remote source beside its hollow copy; a copy resumes where an earlier one stopped."""

    source: RemoteSource
    files: Mapping[str, RemoteFile]
    hollow: Mapping[str, Path]
    sampled: bool

    @property
    def parallel_files(self) -> int:
        return self.source.parallel_files

    @property
    def sizes(self) -> Mapping[str, int]:
        return {name: file.size for name, file in self.files.items()}

    def digest(self) -> str | None:
        """Return the checkpoint's digest; None where its address already fixes the content."""
        return files_digest(self.hollow) if self.sampled else None

    def partial(self, name: str, destination: Path) -> Path:
        """Return where a copy grows, named by the version: two of them are never mixed."""
        version = hashlib.sha256(self.files[name].version.encode()).hexdigest()[:8]
        return destination.with_name(f"{destination.name}.{version}{PARTIAL}")

    def copy(self, name: str, destination: Path) -> str:
        """Copy one file, completely or not at all; return its SHA-256.

        Raises:
            SourceUnavailableError: lost connection, or other bytes came than the server announced.
        """
        partial = self.partial(name, destination)
        file = self.files[name]
        if partial.exists() and partial.stat().st_size > file.size:
            partial.unlink()
        found = self.source.download(file, partial)
        if file.sha256 not in {None, found}:
            partial.unlink()
            raise SourceUnavailableError(
                f"{name} of {self.source.address} came damaged: sha256 {found}, announced"
                f" {file.sha256}. It is fetched again."
            )
        partial.rename(destination)
        return found


Origin: TypeAlias = DirectoryOrigin | RemoteOrigin


@contextmanager
def opened(
    address: Address, environment: Mapping[str, str] | None = None, *, allow_pickle: bool = False
) -> Iterator[Origin]:
    """Give the origin at an address.

    Raises:
        SourceNotFoundError: it does not exist or cannot be read.
        SourceDeniedError: wrong credentials.
        SourceUnavailableError: its server is down.
    """
    variables = os.environ if environment is None else environment
    if isinstance(address, Path):
        yield DirectoryOrigin(_listed(address))
        return
    if isinstance(address, ArchiveAddress):
        with open_archive(address, allow_pickle=allow_pickle) as folder:
            yield DirectoryOrigin(_listed(folder))
        return
    source = open_remote(address, variables)
    wanted = wanted_files(source)
    # A commit's files cannot change: only their names and sizes are needed. A bucket's can, and
    # to find that out before 14 GB are fetched costs a few hundred small reads.
    sampled = not (isinstance(address, HubAddress) and address.pinned)
    with tempfile.TemporaryDirectory(prefix="source-") as scratch:
        directory = Path(scratch)
        (write_mirror(source, wanted, directory) if sampled else write_hollow(wanted, directory))
        hollow = source_files(directory)
        by_name = {file.name: file for file in wanted}
        yield RemoteOrigin(source, {name: by_name[name] for name in hollow}, hollow, sampled)


def _listed(directory: Path) -> dict[str, Path]:
    try:
        return source_files(directory)
    except OSError as error:
        raise SourceNotFoundError(
            f"{directory} cannot be read: {error.strerror}. It was there when it was inspected."
        ) from error
