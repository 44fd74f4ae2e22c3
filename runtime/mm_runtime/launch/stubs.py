"""The processes in which Triton's Python models run, watched beside the server's own.

Triton 2.51 starts none again that was killed, by the kernel for want of memory for example: it says
that it is ready, refuses every request with "Stub process ... is not healthy", and never ends the
streams that were open. So when one dies the server is ended and restarted with all its processes.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import psutil

from mm_runtime.launch.backends import STUB


class Stubs:
    """Every stub below a server, as it is now; readable by its descriptor once it has ended."""

    def __init__(self, server: int) -> None:
        self._names: dict[int, str] = {}
        """Descriptor -> the name of the model."""

        for pid, name in _stubs_below(server):
            try:
                self._names[os.pidfd_open(pid)] = name
            except ProcessLookupError:  # between two polls; the server's health is checked next
                continue

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._names:
            os.close(descriptor)

    @property
    def descriptors(self) -> tuple[int, ...]:
        return tuple(self._names)

    def name(self, descriptor: int) -> str:
        return self._names[descriptor]


def _stubs_below(server: int) -> Iterator[tuple[int, str]]:
    """Yield process id and model of each stub that descends from a process."""
    try:
        found = psutil.Process(server).children(recursive=True)
    except psutil.NoSuchProcess:
        return
    for process in found:
        try:
            words = process.cmdline()
        except psutil.NoSuchProcess:  # it has just ended
            continue
        if words and Path(words[0]).name == STUB:
            yield process.pid, Path(words[1]).parent.parent.name  # STUB MODEL/VERSION/model.py ...
