"""Stop a cluster when the process that it was started for ends: ``python -m mm_devcluster.guard``.

A test that is killed runs no clean-up of its own, so the clean-up watches the test.
"""

import argparse
import os
import select
import sys

from mm_devcluster.cluster import down
from mm_devcluster.layout import Layout
from mm_devcluster.paths import cluster_dir
from mm_devcluster.record import Record

LOOK = 1000  # milliseconds between looks whether the cluster is still the one we guard


def main(arguments: list[str]) -> int:
    """Wait for the owner's end, then stop the cluster; end early when it is gone already."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--owner-pid", required=True, type=int)
    parser.add_argument("--created", required=True, type=float)
    options = parser.parse_args(arguments)
    layout = Layout(cluster_dir(options.name))
    try:
        owner = os.pidfd_open(options.owner_pid)
    except ProcessLookupError:
        owner = -1
    poller = select.poll()
    if owner >= 0:
        poller.register(owner, select.POLLIN)
    while owner >= 0:
        record = Record.read(layout)
        if record is None or record.created != options.created:
            return 0
        if poller.poll(LOOK):
            break
    down(options.name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
