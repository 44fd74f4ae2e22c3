"""``mm-devcluster status``: what a cluster's state is, for people or as JSON."""

import argparse
import json
import time
from dataclasses import asdict

from mm_devcluster.cluster import status
from mm_devcluster.paths import state_dir
from mm_devcluster.record import known_clusters
from mm_devcluster.status import ClusterStatus, PartStatus

HELP = "show the state of a cluster"
MEBIBYTE = 1 << 20
NOT_READY = 1


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--all", action="store_true", help="every cluster, not just --name")


def run(options: argparse.Namespace) -> int:
    """Print the state; exit code 1 when a cluster is not ready."""
    names = known_clusters(state_dir()) if options.all else [options.name]
    clusters = [status(name) for name in names]
    if options.output == "json":
        documents = [asdict(cluster) for cluster in clusters]
        print(json.dumps(documents if options.all else documents[0], indent=2))
    else:
        print("\n\n".join(render(cluster, time.time()) for cluster in clusters) or "no clusters")
    return 0 if all(cluster.ready for cluster in clusters) else NOT_READY


def render(cluster: ClusterStatus, now: float) -> str:
    """Return a cluster's state as text for a terminal.

    Args:
        cluster: The state.
        now: Unix time, for ages.
    """
    lines = [f"Cluster {cluster.name}: {cluster.state}"]
    if cluster.running:
        lines += [
            f"  API server   {cluster.server} ({_ready(claim=cluster.api_ready)})",
            f"  node         {_ready(claim=cluster.node_ready)}",
            f"  DNS          {_ready(claim=cluster.dns_ready)}",
            f"  kubeconfig   {cluster.kubeconfig}",
        ]
    if cluster.devices:
        offered = ", ".join(f"{name}={count}" for name, count in sorted(cluster.devices.items()))
        lines.append(f"  devices      {offered} (fake: for scheduling only)")
    if cluster.image_store:
        size = f"{cluster.image_store_bytes / MEBIBYTE:.0f} MiB, {len(cluster.images)} images"
        lines.append(f"  image store  {cluster.image_store} ({size}; kept after down)")
    if cluster.parts:
        lines += ["", f"  {'PART':<24} {'STATE':<22} {'PID':>8} {'AGE':>6} {'RSS':>8}  ADDRESS"]
        lines += [f"  {_row(part, now)}".rstrip() for part in cluster.parts]
    return "\n".join(lines)


def _row(part: PartStatus, now: float) -> str:
    if part.running:
        state = "running" + (f", {part.restarts} restarts" if part.restarts else "")
        age = _age(now - part.since)
        rss = f"{part.rss_bytes / MEBIBYTE:.0f} MiB"
        pid = str(part.pid)
    else:
        ended = f" (exit code {part.exit_code})" if part.exit_code is not None else ""
        state, age, rss, pid = f"not running{ended}", "", "", ""
    return f"{part.name:<24} {state:<22} {pid:>8} {age:>6} {rss:>8}  {part.address}"


def _age(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"


def _ready(*, claim: bool | None) -> str:
    return {None: "none", True: "ready", False: "not ready"}[claim]
