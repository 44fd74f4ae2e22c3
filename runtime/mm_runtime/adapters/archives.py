"""Unpacks an untrusted archive: nothing outside of its folder, nothing but files."""

import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from mm_runtime.errors import PermanentError

LIMIT_BYTES = 16 * 1024**3
"""Unpacked. An adapter of rank 256 for a model of 70 B has about 7 GB."""

LIMIT_FILES = 1000


def is_archive(path: Path) -> bool:
    return path.is_file() and (tarfile.is_tarfile(path) or zipfile.is_zipfile(path))


def unpack(archive: Path, folder: Path) -> None:
    """Write the files of a tar (also compressed) or zip archive below a folder.

    Raises:
        PermanentError: a name leads out of the folder, a link or a device, too much or too many.
    """
    count = left = 0
    left = LIMIT_BYTES
    for name, size, stream in _members(archive):
        count, left = count + 1, left - size
        if count > LIMIT_FILES or left < 0:
            raise PermanentError(
                f"{archive.name} holds more than {LIMIT_FILES} files or {LIMIT_BYTES} bytes: that"
                " is not a LoRA adapter."
            )
        target = folder / _inside(archive, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        with stream, target.open("wb") as file:
            shutil.copyfileobj(stream, file)


def _members(archive: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                if not info.is_dir():
                    yield info.filename, info.file_size, packed.open(info)
        return
    with tarfile.open(archive) as packed_tar:
        for member in packed_tar:
            if member.isdir():
                continue
            stream = packed_tar.extractfile(member) if member.isreg() else None
            if stream is None:
                raise PermanentError(
                    f"{archive.name} holds {member.name!r}, which is a link or a device; expected"
                    " plain files."
                )
            yield member.name, member.size, stream


def _inside(archive: Path, name: str) -> PurePosixPath:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or "\0" in name or ":" in path.parts[0]:
        raise PermanentError(
            f"{archive.name} holds {name!r}, which leads out of its folder. It was not unpacked."
        )
    return path
