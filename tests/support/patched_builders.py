"""`mm-runtime` in a process of its own, with a few lines run before it: another clock, a death."""

import subprocess
import sys
from collections.abc import Mapping, Sequence

BUILD_SECONDS = 120

MAIN = """
import sys
from mm_runtime.cli import main
sys.exit(main(sys.argv[1:]))
"""

CLOCK = """
import time
real = time.time
time.time = lambda: real() + {seconds}
"""
"""A wall clock that is wrong; files are stamped by the kernel's."""


def start(
    before: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None
) -> "subprocess.Popen[bytes]":
    """Start a builder; what it prints is thrown away."""
    return subprocess.Popen(
        [sys.executable, "-c", before + MAIN, *arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def run(before: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> int:
    """Run a builder to its end; return its exit code."""
    with start(before, arguments, environment) as builder:
        return builder.wait(BUILD_SECONDS)
