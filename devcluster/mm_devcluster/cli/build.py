"""``mm-devcluster build``: compile the cluster's programs ahead of time."""

import argparse
import sys
import time

from mm_devcluster.binaries import NODE, ensure_binaries

HELP = "compile programs that are not in the cache and print where they are"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "programs", nargs="*", default=list(NODE), help=f"default: {' '.join(NODE)}"
    )


def run(options: argparse.Namespace) -> int:
    """Build, with each program that is compiled on stderr, and print one path a line on stdout."""
    began = time.monotonic()

    def report(_stage: str, detail: str) -> None:
        print(f"{time.monotonic() - began:6.1f}s  {detail}", file=sys.stderr, flush=True)

    for path in ensure_binaries(options.programs, report).values():
        print(path)
    return 0
