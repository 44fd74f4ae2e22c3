"""Programs of the chart beside an API server: processes with an account's rights."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from mm_devcluster.cluster import ClusterInfo
from support.clusters import kubectl


def account_kubeconfig(cluster: ClusterInfo, home: str, account: str, path: Path) -> Path:
    """Write a kubeconfig that is an account of a namespace, with a token of an hour."""
    config = yaml.safe_load(cluster.kubeconfig.read_text(encoding="utf-8"))
    token = kubectl(cluster, "-n", home, "create", "token", account).strip()
    config["users"] = [{"name": "account", "user": {"token": token}}]
    for context in config["contexts"]:
        context["context"]["user"] = "account"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


@contextmanager
def running(program: Path, arguments: list[str], kubeconfig: Path, log: Path) -> Iterator[None]:
    """Run a program; SIGTERM at the end must end it with exit code 0."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program, *arguments],
            env=os.environ | {"KUBECONFIG": str(kubeconfig)},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait(timeout=60)
