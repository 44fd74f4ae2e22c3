"""Empty directories of the machine that nodes mount their private ones on.

These paths are compiled into kubelet, CNI plugins and the volume provisioner. The directories
that we made are noted, and removed when no node uses them any more. Not earlier: removing a
directory also unmounts whatever is mounted on it in any other mount namespace.
"""

from contextlib import suppress
from pathlib import Path

from mm_devcluster.layout import Layout

VOLUMES = "/tmp/hostpath_pv"  # noqa: S108 - where kube-controller-manager makes hostPath volumes


def private_mounts(layout: Layout) -> dict[str, Path]:
    """Return each mount point with the cluster's directory that belongs on it."""
    return {
        "/var/lib/kubelet": layout.kubelet,
        "/var/lib/cni": layout.root / "cni",
        "/var/log/pods": layout.logs / "pods",
        "/var/log/containers": layout.logs / "containers",
        VOLUMES: layout.volumes,
    }


def make_mountpoints(layout: Layout, notes: Path) -> None:
    """Make the mount points that do not exist, noting each, and the directories for them."""
    notes.parent.mkdir(parents=True, exist_ok=True)
    for point, private in private_mounts(layout).items():
        private.mkdir(parents=True, exist_ok=True)
        if not Path(point).is_dir():
            with notes.open("a") as file:
                file.write(f"{point}\n")
            Path(point).mkdir(parents=True, exist_ok=True)


def remove_mountpoints(notes: Path) -> None:
    """Remove the noted mount points that are empty; the caller knows that no node runs."""
    if not notes.exists():
        return
    for point in notes.read_text().split():
        with suppress(OSError):  # not empty: not ours any more
            Path(point).rmdir()
    notes.unlink()
