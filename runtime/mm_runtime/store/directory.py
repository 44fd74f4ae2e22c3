"""A store in a directory: a claim, or a disk for builds by hand."""

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from mm_api.documents.engine_manifest import MANIFEST_NAME, EngineFile, EngineManifest
from mm_runtime.base.durable import sync_directory, write_durably, writing_to
from mm_runtime.base.resumable_file import PIECE_BYTES, Piece, ResumableFile
from mm_runtime.engine_build.build_paths import BuildPaths
from mm_runtime.engine_build.lock import tried
from mm_runtime.errors import EngineBusyError, EngineCorruptError
from mm_runtime.store.engines import FINGERPRINT, compare


@dataclass(frozen=True, slots=True)
class DirectoryStore:
    """Engines below `engines/`, as `mm_runtime.engine_build.build_paths` lays them out."""

    root: Path

    def __str__(self) -> str:
        return str(self.root)

    def fingerprints(self) -> list[str]:
        try:
            entries = sorted((self.root / "engines").iterdir())
        except FileNotFoundError:
            return []
        return [entry.name for entry in entries if FINGERPRINT.fullmatch(entry.name)]

    def manifest(self, fingerprint: str) -> bytes:
        path = self._paths(fingerprint).manifest
        try:
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise EngineCorruptError(f"{path} is missing.") from error

    def sizes(self, fingerprint: str, manifest: EngineManifest) -> dict[str, int]:
        del manifest
        engine = self._paths(fingerprint).engine
        return {
            path.relative_to(engine).as_posix(): path.stat().st_size
            for path in sorted(engine.rglob("*"))
            if path.is_file() and path != engine / MANIFEST_NAME
        }

    def chunks(self, fingerprint: str, file: EngineFile) -> Iterator[Piece]:
        path = self._paths(fingerprint).engine / file.path
        try:
            reader = path.open("rb")
        except FileNotFoundError as error:
            raise EngineCorruptError(f"{path} is missing.") from error
        with reader:
            while chunk := reader.read(PIECE_BYTES):
                yield chunk

    def put(
        self, fingerprint: str, manifest: bytes, files: Iterable[tuple[EngineFile, Iterable[Piece]]]
    ) -> None:
        """See `EngineStore.put`; a damaged engine of the same name makes place."""
        paths = self._paths(fingerprint)
        with writing_to(self.root), self._locked(paths):
            folder = paths.work.with_name(f"{fingerprint}.incoming")
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            try:
                for file, chunks in files:
                    _write(folder, file, chunks, f"engine {fingerprint[:12]}")
                write_durably(folder / MANIFEST_NAME, manifest.decode())
                _remove_engine(paths)
                folder.rename(paths.engine)
                sync_directory(paths.engine.parent)
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def unused_since(self, fingerprint: str) -> datetime | None:
        """See `EngineStore.unused_since`; a damaged note is none, the time then starts again."""
        try:
            return datetime.fromisoformat(
                self._paths(fingerprint).unused.read_text(encoding="utf-8")
            )
        except (FileNotFoundError, ValueError):
            return None

    def note_unused(self, fingerprint: str, since: datetime) -> None:
        mark = self._paths(fingerprint).unused
        with writing_to(self.root):
            mark.parent.mkdir(parents=True, exist_ok=True)
            write_durably(mark, since.isoformat())

    def used(self, fingerprint: str) -> None:
        self._paths(fingerprint).unused.unlink(missing_ok=True)

    def remove_unused(self, fingerprint: str, before: datetime) -> bool:
        """See `EngineStore.remove_unused`.

        The note is read again under the lock of builds: a build that found the engine in the
        store has taken it away.
        """
        paths = self._paths(fingerprint)
        with writing_to(self.root), self._locked(paths):
            since = self.unused_since(fingerprint)
            if since is None or since > before:
                return False
            _remove_engine(paths)
            paths.unused.unlink(missing_ok=True)
            return True

    def remove(self, fingerprint: str) -> None:
        paths = self._paths(fingerprint)
        with writing_to(self.root), self._locked(paths):
            _remove_engine(paths)

    def _paths(self, fingerprint: str) -> BuildPaths:
        return BuildPaths(self.root, fingerprint)

    @contextmanager
    def _locked(self, paths: BuildPaths) -> Iterator[None]:
        """Hold the lock that builds hold; never wait for it."""
        for directory in (paths.lock.parent, paths.work.parent):
            directory.mkdir(parents=True, exist_ok=True)
        with tried(paths.lock) as held:
            if not held:
                raise EngineBusyError(
                    f"Engine {paths.fingerprint[:12]} is being built in {self.root}. Try again"
                    " later."
                )
            yield


def _write(folder: Path, file: EngineFile, chunks: Iterable[Piece], where: str) -> None:
    path = folder / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    size = 0
    with ResumableFile(path) as writer:
        for chunk in chunks:
            size += len(chunk)
            writer.write(chunk)
        digest = writer.finish()
    compare(file, size, digest, where)


def _remove_engine(paths: BuildPaths) -> None:
    """Remove an engine. Renamed first: a reader sees all of it or none."""
    gone = paths.work.with_name(f"{paths.fingerprint}.removed")
    shutil.rmtree(gone, ignore_errors=True)
    if paths.engine.exists():
        paths.engine.rename(gone)
        sync_directory(paths.engine.parent)
        shutil.rmtree(gone, ignore_errors=True)
