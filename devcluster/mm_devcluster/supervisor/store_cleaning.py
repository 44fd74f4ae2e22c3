"""Remove what a stopped cluster left in an image store: containers yes, images no.

containerd must not serve Kubernetes meanwhile, or it would remember what was removed. So this
runs one without that part (CRI), before the node's own containerd starts.
"""

import shutil
import subprocess
import time
from pathlib import Path

from mm_devcluster.supervisor.gates import is_open
from mm_devcluster.supervisor.spec import Gate, StoreCleaning

START_TIMEOUT = 20.0  # seconds
LEFTOVERS = (
    "io.containerd.grpc.v1.cri/containers",
    "io.containerd.grpc.v1.cri/sandboxes",
    "io.containerd.runtime.v2.task/k8s.io",
)


def clean(store: StoreCleaning) -> None:
    """Remove containers, sandboxes and their snapshots; a store that was never used is skipped.

    Raises:
        TimeoutError: containerd did not start on the store.
        subprocess.CalledProcessError: It refused a removal.
    """
    root = Path(store.root)
    if not (root / "io.containerd.metadata.v1.bolt" / "meta.db").exists():
        return
    for folder in LEFTOVERS:
        shutil.rmtree(root / folder, ignore_errors=True)
    command = ["containerd", "--config", store.config, "--log-level", "warn"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
        try:
            _await(store.socket)
            ctr = ["ctr", "--address", store.socket, "--namespace", "k8s.io"]
            for kind in ("containers", "leases"):
                listed = subprocess.run(
                    [*ctr, kind, "ls", "--quiet"], check=True, capture_output=True, timeout=30
                )
                names = listed.stdout.decode().split()
                if names:
                    subprocess.run([*ctr, kind, "rm", *names], check=True, timeout=60)
        finally:
            process.terminate()


def _await(socket: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while not is_open(Gate("unix", socket)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"containerd did not open {socket} in {START_TIMEOUT:.0f} s")
        time.sleep(0.02)
