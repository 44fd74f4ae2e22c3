"""What a build has finished, so that the next process resumes instead of starting again."""

from collections.abc import Iterable
from pathlib import Path

from pydantic import Field, ValidationError

from mm_api.base import Document
from mm_api.documents.engine_manifest import StepRecord
from mm_runtime.base.durable import write_durably
from mm_runtime.engine_build.step import Step


class OutputFile(Document):
    """One file a step has written: enough to see that it is still the same."""

    path: str
    size: int = Field(ge=0)
    modified_ns: int


class JournalEntry(Document):
    """One finished step."""

    fingerprint: str
    argv: list[str] = Field(default=[], description="A command of the plan, as it was run.")
    record: StepRecord
    outputs: list[OutputFile]


class JournalFile(Document):
    """The file on disk."""

    entries: list[JournalEntry] = Field(default_factory=list)


class Journal:
    """Entries of one working directory, saved after each step.

    A file that cannot be read counts as empty: steps are repeatable, so losing it costs time only.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: dict[str, JournalEntry] = {}
        try:
            stored = JournalFile.from_json(path.read_bytes())
        except (FileNotFoundError, ValidationError):
            return
        self._entries = {entry.fingerprint: entry for entry in stored.entries}

    def finished(self, step: Step) -> StepRecord | None:
        """Return the record of a step whose outputs are all still there, else None."""
        entry = self._entries.get(step.fingerprint)
        if entry is None:
            return None
        now = {file.path: file for file in _outputs(self._path.parent, step.outputs)}
        intact = all(now.get(file.path) == file for file in entry.outputs)
        return entry.record if intact else None

    def add(self, step: Step, record: StepRecord) -> None:
        """Note a step as finished, on disk before this returns."""
        outputs = list(_outputs(self._path.parent, step.outputs))
        self._entries[step.fingerprint] = JournalEntry(
            fingerprint=step.fingerprint,
            argv=list(step.command),
            record=record,
            outputs=outputs,
        )
        stored = JournalFile(entries=list(self._entries.values()))
        write_durably(self._path, stored.to_json(indent=1))


def _outputs(work: Path, names: Iterable[str]) -> Iterable[OutputFile]:
    for name in names:
        root = work / name
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            if path.is_file():
                state = path.stat()
                yield OutputFile(
                    path=path.relative_to(work).as_posix(),
                    size=state.st_size,
                    modified_ns=state.st_mtime_ns,
                )
