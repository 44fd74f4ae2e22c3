"""Opens files of a source so that links end where the source's claim does.

Who writes to a claim may put a link into a checkpoint that leads to a file of the Job's own: its
environment, its account, another claim. Links within the claim are the Hub cache's way to keep
files, and remain. A path outside of every mount of `mm_api.contract` has no such limit: there a
person reads own files.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from mm_api.contract import ADAPTERS_MOUNT, SOURCE_MOUNT, STORE_MOUNT
from mm_runtime.errors import SourceEscapesError

_ROOTS = (Path(SOURCE_MOUNT), Path(STORE_MOUNT))
_PARENTS = (Path(ADAPTERS_MOUNT),)
"""Folders whose every folder is a mount."""


def claim_root(path: Path) -> Path | None:
    """Return the mount of the claim in which a path lies; None outside of all claims."""
    lexical = Path(os.path.normpath(path))
    for root in _ROOTS:
        if lexical.is_relative_to(root):
            return root
    for parent in _PARENTS:
        if lexical.is_relative_to(parent) and lexical != parent:
            return parent / lexical.relative_to(parent).parts[0]
    return None


def check_contained(path: Path) -> None:
    """Refuse a path whose links lead out of its claim; one that does not exist passes."""
    root = claim_root(path)
    if root is not None:
        _compare(path, path.resolve(), root)


@contextmanager
def open_contained(path: Path) -> Iterator[BufferedReader]:
    """Open a file of a source for reading.

    What was opened is compared, not the path: a link that changes after a check leads nowhere.

    Raises:
        SourceEscapesError: it lies outside of its claim, or is no file.
        OSError: it cannot be read.
    """
    root = claim_root(path)
    # Not blocking: a pipe in the place of a file would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:  # noqa: PTH123  # of a descriptor
        if root is not None:
            _compare(path, Path(f"/proc/self/fd/{descriptor}").readlink(), root)
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise SourceEscapesError(f"{path} is not a file: remove it from the checkpoint.")
        yield file


def _compare(path: Path, found: Path, root: Path) -> None:
    if not found.is_relative_to(root.resolve()):
        raise SourceEscapesError(
            f"{path} is a link, or lies behind one, that leads out of the claim: links of a"
            " checkpoint may lead to files of the same claim only. Copy the file to the link's"
            " place."
        )
