"""``mm-devcluster up``: start a cluster and wait until it works."""

import argparse
import sys
import time

from mm_devcluster.addresses import Family
from mm_devcluster.cluster import ClusterOptions, up

HELP = "start a cluster; when it runs already, do nothing"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--control-plane-only",
        action="store_true",
        help="API server and controllers on loopback: no node, no pods, no root, ready in seconds",
    )
    parser.add_argument(
        "--gpu",
        metavar="host|RESOURCE=N,LABEL=VALUE",
        help="host: this machine's GPUs (host,replicas=4: each for 4 pods in turns); or fake ones, "
        "for scheduling only: nvidia.com/gpu=2,product=NVIDIA-H100-80GB-HBM3",
    )
    parser.add_argument(
        "--ip-family",
        type=Family,
        choices=tuple(Family),
        default=ClusterOptions.ip_family,
        help="addresses of node, pods and Services (default: %(default)s)",
    )
    parser.add_argument(
        "--install-packages", action="store_true", help="install missing Debian packages"
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=ClusterOptions.timeout,
        metavar="SECONDS",
        help="give up after this long, compiling not counted (default: %(default)s)",
    )


def run(options: argparse.Namespace) -> int:
    """Start the cluster, reporting each stage on stderr and how to reach it on stdout."""
    began = time.monotonic()

    def report(stage: str, detail: str) -> None:
        print(f"{time.monotonic() - began:6.1f}s  {stage:<12} {detail}", file=sys.stderr)

    cluster = up(
        ClusterOptions(
            name=options.name,
            control_plane_only=options.control_plane_only,
            gpu=options.gpu,
            ip_family=options.ip_family,
            install_packages=options.install_packages,
            timeout=options.timeout,
        ),
        report,
    )
    print(f"export KUBECONFIG={cluster.kubeconfig}")
    return 0
