"""``mm-devcluster build``: compile the cluster's programs ahead of time."""

import argparse
import sys

from mm_devcluster.binaries import NODE, ensure_binaries

HELP = "compile programs that are not in the cache and print where they are"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "programs", nargs="*", default=list(NODE), help=f"default: {' '.join(NODE)}"
    )


def run(options: argparse.Namespace) -> int:
    """Build and print one path a line."""

    def tell(_stage: str, detail: str) -> None:
        print(detail, file=sys.stderr)

    for path in ensure_binaries(options.programs, tell).values():
        print(path)
    return 0
