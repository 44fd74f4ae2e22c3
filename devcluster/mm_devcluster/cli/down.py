"""``mm-devcluster down``: stop a cluster and remove what it made."""

import argparse

from mm_devcluster.cluster import down

HELP = "stop a cluster and remove everything it made; its images stay in the cache"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--purge-images", action="store_true", help="delete the images that it used, too"
    )


def run(options: argparse.Namespace) -> int:
    """Stop the cluster; a cluster that is not there is no error."""
    stopped = down(options.name, purge_images=options.purge_images)
    print(f"cluster {options.name!r} " + ("is stopped" if stopped else "was not there"))
    return 0
