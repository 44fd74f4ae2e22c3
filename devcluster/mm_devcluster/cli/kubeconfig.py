"""``mm-devcluster kubeconfig``: where the admin's kubeconfig is, or what is in it."""

import argparse

from mm_devcluster.cluster import info

HELP = "print the path of the admin's kubeconfig, or its content"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "-o", "--output", choices=("path", "yaml"), default="path", help="what to print"
    )


def run(options: argparse.Namespace) -> int:
    """Print path or content."""
    path = info(options.name).kubeconfig
    print(path.read_text().rstrip() if options.output == "yaml" else path)
    return 0
