"""``mm-devcluster logs``: what a part of the cluster wrote."""

import argparse
import os

from mm_devcluster.errors import DevClusterError
from mm_devcluster.layout import Layout
from mm_devcluster.paths import cluster_dir, state_dir

HELP = "print the log of a part (of a start that failed, too); without a part, list them"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("part", nargs="?", help="kubelet, kube-apiserver, supervisor, ...")
    parser.add_argument("-f", "--follow", action="store_true", help="keep printing")


def run(options: argparse.Namespace) -> int:
    """Print a log, or the names of the logs.

    Raises:
        DevClusterError: There is no such cluster or part.
    """
    directory = Layout(cluster_dir(options.name)).logs
    if not directory.is_dir():
        directory = state_dir() / "failed" / options.name
    parts = sorted(path.stem for path in directory.glob("*.log"))
    if not parts:
        raise DevClusterError(f"cluster {options.name!r} has no logs: it was never started")
    if options.part is None:
        print("\n".join(parts))
        return 0
    if options.part not in parts:
        raise DevClusterError(f"no part is called {options.part!r}; there are: {', '.join(parts)}")
    log = directory / f"{options.part}.log"
    if options.follow:
        os.execvp("tail", ["tail", "-n", "+1", "-F", str(log)])  # noqa: S606 - no shell wanted
    print(log.read_text(errors="replace"), end="")
    return 0
