"""``mm-devcluster load-image``: put an image into a cluster's node."""

import argparse
from pathlib import Path

from mm_devcluster.cluster import load_image

HELP = "load an OCI archive into the node; layers it holds already are skipped"
MEBIBYTE = 1 << 20


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("archive", type=Path, help="an uncompressed tar with index.json")


def run(options: argparse.Namespace) -> int:
    """Load the archive and say what that took."""
    loaded = load_image(options.name, options.archive)
    names = ", ".join(loaded.references) or "nothing new"
    print(
        f"{names}: sent {loaded.sent_bytes / MEBIBYTE:.1f} MiB, "
        f"skipped {loaded.kept_bytes / MEBIBYTE:.1f} MiB that the node had"
    )
    return 0
