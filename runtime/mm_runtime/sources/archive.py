"""A checkpoint in an archive behind an HTTPS address: fetched, compared with its digest, unpacked.

Nothing of it is read before the digest is right; even then it holds files and folders only, within
bounds, and FairSeq's pickle is read by a process of its own, without secrets.
"""

import bz2
import gzip
import os
import shutil
import subprocess
import tarfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Self

import httpx2

from mm_api.documents.model_facts import InspectReason
from mm_runtime.base.engine_python import engine_python
from mm_runtime.base.resumable_file import PIECE_BYTES, ResumableFile
from mm_runtime.base.trust import TRUST, is_untrusted
from mm_runtime.errors import (
    InspectRefusedError,
    PermanentError,
    SourceDeniedError,
    SourceNotFoundError,
    SourceUnavailableError,
    SourceUntrustedError,
)
from mm_runtime.sources.address import ArchiveAddress

MOST_BYTES = 16 * 2**30
"""As it is sent, compressed."""
MOST_UNPACKED_BYTES = 32 * 2**30
MOST_FILES = 1000
MOST_HEADER_BYTES = 64 * 1024
"""A long name and the records of PAX are held in memory."""
REQUEST_SECONDS = 30.0
PERMANENT = {
    **dict.fromkeys((401, 403), SourceDeniedError),
    **dict.fromkeys((404, 410), SourceNotFoundError),
}

_INHERITED = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "HOME", "TMPDIR")
"""Variables of the converter's process: none holds a secret."""


def unpack(address: ArchiveAddress, scratch: Path, *, allow_pickle: bool) -> Path:
    """Return the folder of an archive's checkpoint, which is in transformers' layout.

    Raises:
        SourceNotFoundError: no such archive, or another one than the digest names.
        SourceDeniedError: the server wants credentials.
        SourceUnavailableError: the server is down, or the connection was lost.
        PermanentError: the archive is damaged, too large, or holds more than files and folders.
        InspectRefusedError: FairSeq's checkpoint is not allowed, or cannot be converted.
    """
    packed, folder = scratch / "archive", scratch / "checkpoint"
    found = _fetch(address, packed)
    if found != address.sha256:
        raise SourceNotFoundError(
            f"{address} has sha256 {found}, and the source names {address.sha256}: the archive was"
            " replaced, or the digest is another one's."
        )
    try:
        _extract(packed, folder, bzip=address.url.endswith(".bz2"))
    except PermanentError as error:
        raise PermanentError(f"{address} is not unpacked: {error}.") from error
    except (tarfile.TarError, EOFError, zlib.error, RecursionError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's
        raise PermanentError(f"{address} is damaged: {error}.") from error
    packed.unlink()
    inside = list(folder.iterdir())
    checkpoint = inside[0] if len(inside) == 1 and inside[0].is_dir() else folder
    if (checkpoint / "model.pt").is_file() and not (checkpoint / "config.json").exists():
        _convert(checkpoint, address, allow_pickle=allow_pickle)
    return checkpoint


def _fetch(address: ArchiveAddress, target: Path) -> str:
    """Write the archive; return its SHA-256."""
    hooks = {"request": [_check_scheme]}
    client = httpx2.Client(timeout=REQUEST_SECONDS, follow_redirects=True, event_hooks=hooks)
    stream = client.stream("GET", address.url, headers={"Accept-Encoding": "identity"})
    try:
        with client, stream as answer, ResumableFile(target) as writer:
            answer.raise_for_status()
            for piece in answer.iter_raw(PIECE_BYTES):
                writer.write(piece)
                if answer.num_bytes_downloaded > MOST_BYTES:
                    raise PermanentError(f"{address} has more than {MOST_BYTES} bytes.")
            return writer.finish()
    except httpx2.HTTPStatusError as error:
        status = error.response.status_code
        kind = PERMANENT.get(status, SourceUnavailableError)
        why = "; credentials are never sent" if kind is SourceDeniedError else ""
        raise kind(f"{address}: the server answered {status}{why}.") from error
    except httpx2.HTTPError as error:
        if is_untrusted(error):
            raise SourceUntrustedError(
                f"{address}: the server's certificate is not trusted: {TRUST}"
            ) from error
        raise SourceUnavailableError(
            f"{address} cannot be fetched now ({type(error).__name__})."
        ) from error


def _check_scheme(request: httpx2.Request) -> None:
    if request.url.scheme != "https":
        raise PermanentError(f"the archive is redirected to {request.url.scheme}://; https only.")


class _Member(tarfile.TarInfo):
    """A member whose header fits into memory: tarfile reads names and records in one piece."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        if not member.isreg() and member.size > MOST_HEADER_BYTES:
            raise PermanentError(f"a header has {member.size} bytes; {MOST_HEADER_BYTES} at most")
        return member


def _extract(packed: Path, folder: Path, *, bzip: bool) -> None:
    files = total = 0
    folder.mkdir()
    opened = bz2.open if bzip else gzip.open
    with (
        opened(packed) as reader,
        tarfile.open(fileobj=reader, mode="r|", tarinfo=_Member) as archive,
    ):
        for member in archive:
            path = PurePosixPath(member.name)
            if path.is_absolute() or ".." in path.parts:
                raise PermanentError(f"{member.name!r} lies outside of it")
            if not (member.isreg() or member.isdir()) or member.issparse():
                raise PermanentError(f"{member.name!r} is no plain file, but a link or a device")
            files, total = files + 1, total + member.size
            if files > MOST_FILES or total > MOST_UNPACKED_BYTES:
                raise PermanentError(
                    f"{files} of its files have {total} bytes; at most {MOST_FILES} with"
                    f" {MOST_UNPACKED_BYTES} are unpacked"
                )
            target = folder / path
            (target if member.isdir() else target.parent).mkdir(parents=True, exist_ok=True)
            if content := archive.extractfile(member):
                with content, target.open("wb") as writer:
                    shutil.copyfileobj(content, writer, PIECE_BYTES)


def _convert(folder: Path, address: ArchiveAddress, *, allow_pickle: bool) -> None:
    if not allow_pickle:
        raise InspectRefusedError(
            InspectReason.PICKLE_REFUSED,
            f"{address} holds FairSeq's model.pt, which is a pickle. Set spec.model.allowPickle:"
            " true; only tensors and the namespace of its arguments are read of it.",
        )
    done = subprocess.run(
        [engine_python(), "-m", "mm_runtime.engine_build.commands.fairseq", str(folder)],
        env={name: os.environ[name] for name in _INHERITED if name in os.environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        *_, why = done.stdout.strip().splitlines() or [f"its process ended with {done.returncode}"]
        raise InspectRefusedError(
            InspectReason.WEIGHTS_INVALID, f"{address} is not converted: {why}."
        )
