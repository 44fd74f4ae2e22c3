"""`mm-runtime` in a process of its own, with a few lines run before it: another clock, a death."""

import os
from collections.abc import Sequence

from mm_runtime.cli import main
from support.fork import Fork

BUILD_SECONDS = 120

CLOCK = """
import time
real = time.time
time.time = lambda: real() + {seconds}
"""
"""A wall clock that is wrong; files are stamped by the kernel's."""


def start(before: str, arguments: Sequence[str]) -> Fork:
    def build() -> None:
        exec(before, {})  # noqa: S102 (a test's own lines)
        raise SystemExit(main(list(arguments)))

    output = os.open(os.devnull, os.O_WRONLY)
    builder = Fork(build, output)
    os.close(output)
    return builder


def run(before: str, arguments: Sequence[str]) -> int:
    return start(before, arguments).wait(BUILD_SECONDS)
