"""``mm-devcluster kubectl -- ...``: the cluster's own kubectl, as its admin."""

import argparse
import os
from typing import NoReturn
from urllib.parse import urlsplit

from mm_devcluster.cluster import info

HELP = "run kubectl against a cluster: mm-devcluster kubectl -- get pods -A"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="-- ARGUMENTS")


def run(options: argparse.Namespace) -> NoReturn:
    """Become kubectl; returns only when that fails."""
    cluster = info(options.name)
    arguments = options.arguments[1:] if options.arguments[:1] == ["--"] else options.arguments
    host = urlsplit(cluster.server).hostname or ""
    # A proxy that the user has set cannot reach addresses of this machine.
    direct = ",".join(filter(None, (os.environ.get("NO_PROXY", ""), host)))
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "NO_PROXY": direct}
    os.execve(cluster.kubectl, ["kubectl", *arguments], environment)  # noqa: S606 - no shell wanted
