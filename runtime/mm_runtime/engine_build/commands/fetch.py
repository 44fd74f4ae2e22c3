"""Copy the checkpoint into the store, compare its digest with the plan's, look at its numbers."""

import logging
from collections.abc import Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

from mm_api.documents.engine_manifest import EngineFile
from mm_runtime.base.durable import free_bytes, sha256, write_durably
from mm_runtime.engine_build.commands.step import StepContext, run_step
from mm_runtime.engine_build.receipt import FetchReceipt
from mm_runtime.errors import SourceChangedError, StoreNotWritableError
from mm_runtime.inspect.finite import refuse_not_finite
from mm_runtime.sources.address import parse_address
from mm_runtime.sources.identity import files_digest
from mm_runtime.sources.origin import Origin, opened

log = logging.getLogger(__name__)

REPORT_SECONDS = 5.0


def fetch(context: StepContext) -> None:
    """Copy what the plan was made for; anything else is `SourceChangedError`.

    The digest is taken three times: of the source before (fails within seconds), of the copies
    after (a change in between), and full digests go into the receipt for the manifest.

    Raises:
        WeightsUnusableError: a weight is not finite.
    """
    allowed = context.plan.allow_pickle
    with opened(parse_address(context.source), allow_pickle=allowed) as origin:
        _fetch(context, origin)


def _fetch(context: StepContext, origin: Origin) -> None:
    expected = context.plan.engine.source_digest
    found = origin.digest()
    if found not in {None, expected}:
        raise _changed(context.source, found, expected)
    copies = {name: context.paths.fetched(name) for name in origin.sizes}
    _remove_unexpected(
        context, {*copies.values(), *(origin.partial(*copy) for copy in copies.items())}
    )
    digests = _copy_all(origin, copies)
    if files_digest(copies) != expected:
        log.info("a copy left by an earlier attempt differs: copying everything again")
        for path in copies.values():
            path.unlink(missing_ok=True)
        digests = _copy_all(origin, copies)
        found = files_digest(copies)
        if found != expected:
            raise _changed(context.source, found, expected)
    refuse_not_finite(copies.values())
    work = context.paths.work
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
    write_durably(context.paths.receipt, receipt.to_json(indent=1))


def _changed(source: str, found: str | None, expected: str) -> SourceChangedError:
    return SourceChangedError(
        f"The checkpoint in {source} is not the one that was inspected: {found}, expected"
        f" {expected}."
        " It is inspected again."
    )


def _remove_unexpected(context: StepContext, wanted: set[Path]) -> None:
    paths = context.paths
    for directory in {paths.weights, paths.processor, paths.pickles}:
        for path in directory.rglob("*"):
            if path.is_file() and path not in wanted:
                path.unlink()


def _copy_all(origin: Origin, copies: Mapping[str, Path]) -> dict[str, str]:
    sizes = origin.sizes
    total = sum(sizes.values())
    folder = next(iter(copies.values())).parent
    _check_space(origin, copies, folder)
    with ThreadPoolExecutor(origin.parallel_files) as pool:

        def copied(name: str) -> tuple[str, str]:
            if _complete(copies[name], sizes[name]):
                return name, sha256(copies[name])
            copies[name].parent.mkdir(parents=True, exist_ok=True)
            return name, origin.copy(name, copies[name])

        waiting = [pool.submit(copied, name) for name in sorted(sizes)]
        try:
            while wait(waiting, REPORT_SECONDS, FIRST_EXCEPTION).not_done:
                if any(one.done() and one.exception() for one in waiting):
                    break
                done = _bytes_there(origin, copies)
                log.info("%d of %d MiB, %d %%", done >> 20, total >> 20, 100 * done // total)
            digests = dict(one.result() for one in waiting)
        finally:
            for one in waiting:
                one.cancel()
    log.info("%d files, %d MiB", len(sizes), total >> 20)
    return digests


def _bytes_there(origin: Origin, copies: Mapping[str, Path]) -> int:
    paths = ((path, origin.partial(name, path)) for name, path in copies.items())
    return sum(_size(path) or _size(partial) for path, partial in paths)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _check_space(origin: Origin, copies: Mapping[str, Path], folder: Path) -> None:
    """Refuse what would fill the store, before the first byte is fetched."""
    missing = 0
    for name, size in origin.sizes.items():
        partial = origin.partial(name, copies[name])
        if not _complete(copies[name], size):
            missing += size - (min(partial.stat().st_size, size) if partial.exists() else 0)
    if missing > free_bytes(folder):
        raise StoreNotWritableError(
            f"The store has {free_bytes(folder)} bytes free and the checkpoint needs {missing}."
            " Enlarge spec.build.store.size or delete old engines."
        )


def _complete(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


if __name__ == "__main__":
    run_step(fetch)
