"""Copy the checkpoint into the store and compare its digest with the plan's."""

import hashlib
import logging
import os
import time
from pathlib import Path

from mm_api.documents.engine_manifest import EngineFile
from mm_runtime.build.commands.step import StepContext, run_step
from mm_runtime.build.durable import free_bytes, sha256, write_durably
from mm_runtime.build.receipt import FetchReceipt
from mm_runtime.build.source import files_digest, source_files
from mm_runtime.errors import (
    SourceChangedError,
    SourceNotFoundError,
    StoreNotWritableError,
)

log = logging.getLogger(__name__)

CHUNK_BYTES = 4 * 1024 * 1024
REPORT_SECONDS = 5.0
PARTIAL = ".partial"


def fetch(context: StepContext) -> None:
    """Copy what the plan was made for; anything else is `SourceChangedError`.

    The digest is taken three times: of the source before (fails within seconds), of the copies
    after (a change in between), and whole digests go into the receipt for the manifest.
    """
    expected = context.plan.engine.source_digest
    files = _source_files(context.source)
    found = files_digest(files)
    if found != expected:
        raise _changed(context.source, found, expected)
    copies = {name: context.places.fetched(name) for name in files}
    _remove_strangers(context, set(copies.values()))
    digests = _copy_all(files, copies)
    if files_digest(copies) != expected:
        log.info("a copy left by an earlier attempt differs: copying everything again")
        for path in copies.values():
            path.unlink(missing_ok=True)
        digests = _copy_all(files, copies)
        found = files_digest(copies)
        if found != expected:
            raise _changed(context.source, found, expected)
    work = context.places.work
    receipt = FetchReceipt(
        source_digest=expected,
        files=[
            EngineFile(
                path=path.relative_to(work).as_posix(),
                size=path.stat().st_size,
                sha256=digests[name],
            )
            for name, path in sorted(copies.items())
        ],
    )
    write_durably(context.places.receipt, receipt.to_json(indent=1))


def _source_files(source: Path) -> dict[str, Path]:
    try:
        return source_files(source)
    except OSError as error:
        raise SourceNotFoundError(
            f"{source} cannot be read: {error.strerror}. It was there when it was inspected."
        ) from error


def _changed(source: Path, found: str, expected: str) -> SourceChangedError:
    return SourceChangedError(
        f"The checkpoint in {source} is not the one that was inspected: {found}, expected"
        f" {expected}."
        " It is inspected again."
    )


def _remove_strangers(context: StepContext, wanted: set[Path]) -> None:
    """Remove what an earlier attempt with other files has left."""
    for directory in (context.places.llm, context.places.processor, context.places.pickles):
        for path in directory.iterdir():
            if path not in wanted:
                path.unlink()


def _copy_all(files: dict[str, Path], copies: dict[str, Path]) -> dict[str, str]:
    sizes = {name: path.stat().st_size for name, path in files.items()}
    total = sum(sizes.values())
    missing = sum(sizes[name] for name, path in copies.items() if not _complete(path, sizes[name]))
    folder = next(iter(copies.values())).parent
    if missing > free_bytes(folder):
        raise StoreNotWritableError(
            f"The store has {free_bytes(folder)} bytes free and the checkpoint needs {missing}."
            " Enlarge spec.build.store.size or delete old engines."
        )
    digests = {}
    done = 0
    reported = time.monotonic()
    for name in sorted(files):
        if _complete(copies[name], sizes[name]):
            digests[name] = sha256(copies[name])
        else:
            digests[name] = _copy(files[name], copies[name])
        done += sizes[name]
        if time.monotonic() - reported > REPORT_SECONDS:
            reported = time.monotonic()
            log.info("%d of %d MiB", done >> 20, total >> 20)
    log.info("%d files, %d MiB", len(files), total >> 20)
    return digests


def _complete(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def _copy(source: Path, destination: Path) -> str:
    """Copy one file, whole or not at all; return its SHA-256 as it was read."""
    partial = destination.with_name(destination.name + PARTIAL)
    digest = hashlib.sha256()
    with source.open("rb") as reader, partial.open("wb") as writer:
        while chunk := reader.read(CHUNK_BYTES):
            digest.update(chunk)
            writer.write(chunk)
        writer.flush()
        os.fsync(writer.fileno())
    partial.rename(destination)
    return digest.hexdigest()


if __name__ == "__main__":
    run_step(fetch)
