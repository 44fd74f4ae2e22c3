"""Find out everything that this machine lacks, at once, before anything is started."""

import os
import subprocess
from contextlib import suppress
from pathlib import Path

from mm_devcluster.node.cgroups import CGROUPS, is_unified
from mm_devcluster.paths import cache_dir, state_dir

NAMESPACES = ("net", "mnt", "pid")
CONTROLLERS = ("cpu", "memory", "pids")
UNSUITABLE_DISKS = {"overlay", "overlayfs", "aufs", "nfs", "nfs4", "tmpfs", "ramfs"}
MODULES = ("overlay", "br_netfilter")
SOCKET_PATH_LIMIT = 107  # bytes of sun_path, unix(7), less the final zero


def missing_for_node(name: str) -> tuple[str, ...]:
    """Return what a node needs and this machine lacks, one sentence each; packages not counted."""
    missing: list[str] = []
    if os.geteuid() != 0:
        missing.append("root: the node gets its own namespaces, mounts and cgroups (run with sudo)")
        return tuple(missing)  # without it the rest cannot be judged
    missing.extend(
        f"kernel support for {kind} namespaces"
        for kind in NAMESPACES
        if not Path(f"/proc/self/ns/{kind}").exists()
    )
    missing.extend(_missing_controllers())
    for module in MODULES:
        _load_module(module)
    if "overlay" not in Path("/proc/filesystems").read_text():
        missing.append("the overlay file system (CONFIG_OVERLAY_FS)")
    if not Path("/proc/sys/net/bridge/bridge-nf-call-iptables").exists():
        missing.append("bridge filtering (CONFIG_BRIDGE_NETFILTER, module br_netfilter)")
    for variable, directory in (("MM_CACHE_DIR", cache_dir()), ("MM_STATE_DIR", state_dir())):
        kind = file_system_of(directory, Path("/proc/self/mounts").read_text())
        if kind in UNSUITABLE_DISKS:
            missing.append(
                f"a real disk for {directory}: overlayfs does not stack on {kind} (set {variable})"
            )
    socket = state_dir() / "clusters" / name / "containerd.sock"
    if len(str(socket).encode()) > SOCKET_PATH_LIMIT:
        missing.append(f"a shorter state directory: {socket} is too long for a socket's path")
    return tuple(missing)


def file_system_of(path: Path, mounts: str) -> str:
    """Return the type of the file system that holds a path.

    Args:
        path: Absolute; need not exist yet.
        mounts: Content of /proc/self/mounts.
    """
    best, kind = Path("/"), ""
    for line in mounts.splitlines():
        _, point, type_, *_ = line.split()
        mounted = Path(point.replace("\\040", " "))
        # Of two mounts on one point the later one is on top.
        if path.is_relative_to(mounted) and len(mounted.parts) >= len(best.parts):
            best, kind = mounted, type_
    return kind


def _missing_controllers() -> list[str]:
    if is_unified():
        present = (CGROUPS / "cgroup.controllers").read_text().split()
    else:
        present = [entry.name for entry in CGROUPS.iterdir()] if CGROUPS.is_dir() else []
    missing = [f"cgroup controller {name}" for name in CONTROLLERS if name not in present]
    top = CGROUPS if is_unified() else CGROUPS / "memory"
    if not os.access(top, os.W_OK) or _is_read_only(top):
        missing.append(f"a writable cgroup tree: {top} is read-only")
    return missing


def _is_read_only(path: Path) -> bool:
    # root may write anywhere except on a read-only mount, which access(2) does report
    return path.is_dir() and bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def _load_module(name: str) -> None:
    # It may be built in, or there may be no modules and no program that loads them; what counts is
    # checked afterwards.
    with suppress(FileNotFoundError):
        subprocess.run(["modprobe", "--quiet", name], capture_output=True, timeout=30, check=False)
