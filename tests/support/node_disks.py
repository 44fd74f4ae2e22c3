"""Small disks of a development cluster's node: full, read-only or damaged when a test says so.

A disk is a tmpfs in the mount namespace of the node, so the machine itself never sees it; its files
are reached through `/proc`. Claims of any namespace may be bound to it.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mm_devcluster.cluster import ClusterInfo, status
from mm_devcluster.node.mountpoints import VOLUMES
from support.clusters import apply, kubectl
from support.volumes import bound

MOUNT_SECONDS = 20.0
BALLAST = "ballast"


@dataclass(frozen=True)
class NodeDisk:
    """A disk that is mounted on the node."""

    name: str
    pid: int
    """A process of the node."""

    @property
    def path(self) -> str:
        return f"{VOLUMES}/{self.name}"

    @property
    def files(self) -> Path:
        return Path(f"/proc/{self.pid}/root{self.path}")

    def engines(self) -> list[str]:
        names = (path.name for path in self.files.glob("engines/*"))
        return sorted(name for name in names if not name.startswith("."))

    def remount(self, options: str) -> None:
        self._run("mount", "-o", f"remount,{options}", self.path)

    def fill(self, free: int) -> None:
        with (self.files / BALLAST).open("wb") as file:
            file.write(bytes(self._free() - free))

    def relieve(self) -> None:
        (self.files / BALLAST).unlink()

    def _free(self) -> int:
        text = self._run("stat", "--file-system", "--format=%a %S", self.path)
        blocks, size = text.split()
        return int(blocks) * int(size)

    def _run(self, *command: str) -> str:
        everything = ("nsenter", f"--target={self.pid}", "--mount", "--pid", *command)
        done = subprocess.run(
            everything, capture_output=True, text=True, timeout=MOUNT_SECONDS, check=False
        )
        assert done.returncode == 0, f"{' '.join(everything)}: {done.stderr}"
        return done.stdout

    def _mount(self, mebibytes: int) -> None:
        self._run("mkdir", "-p", self.path)
        self._run("mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=0777", "mm", self.path)

    def _unmount(self) -> None:
        # Lazily: a pod that is still ending may hold it.
        self._run("umount", "--lazy", self.path)
        self._run("rmdir", self.path)


@contextmanager
def node_disk(cluster: ClusterInfo, name: str, *, mebibytes: int) -> Iterator[NodeDisk]:
    (kubelet,) = [part.pid for part in status(cluster.name).parts if part.name == "kubelet"]
    assert kubelet, "no kubelet runs"
    disk = NodeDisk(name, kubelet)
    disk._mount(mebibytes)
    try:
        yield disk
    finally:
        disk._unmount()


@contextmanager
def claimed(cluster: ClusterInfo, disk: NodeDisk, namespace: str, claim: str) -> Iterator[None]:
    volume = f"{disk.name}-{namespace}-{claim}"
    apply(cluster, *bound(volume, namespace, claim, path=disk.path))
    try:
        yield
    finally:
        removal = ("--ignore-not-found", "--wait=false")
        kubectl(cluster, "delete", "pvc", claim, "--namespace", namespace, *removal)
        kubectl(cluster, "delete", "pv", volume, *removal)
