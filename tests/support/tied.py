"""Processes that a test session starts go with it, whatever ends it."""

from collections.abc import Sequence
from pathlib import Path


def tied(command: Sequence[str | Path]) -> list[str]:
    """Return a command whose process gets SIGTERM with the end of the thread that starts it.

    Fixtures of a worker that is killed, or that pytest-xdist leaves behind after SIGINT, end
    nothing. util-linux's `setpriv` becomes the command: the process id is the command's own.
    """
    return ["setpriv", "--pdeathsig", "TERM", "--", *map(str, command)]
