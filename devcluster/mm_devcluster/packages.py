"""The Debian packages that a node needs, and their installation."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mm_devcluster.errors import DevClusterError, MissingRequirementsError

POLICY = Path("/usr/sbin/policy-rc.d")  # called by Debian before it starts any service
INSTALL_TIMEOUT = 600.0  # seconds; 37 MB of downloads


@dataclass(frozen=True)
class Package:
    """A package and the program whose presence proves it, however it was installed."""

    name: str
    program: str
    reason: str


CONTROL_PLANE_PACKAGES = (Package("openssl", "openssl", "issues the cluster's certificates"),)
NODE_PACKAGES = (
    *CONTROL_PLANE_PACKAGES,
    Package("containerd", "containerd", "runs the pods"),
    Package("runc", "runc", "starts their containers"),
    Package("containernetworking-plugins", "/usr/lib/cni/bridge", "connects pods to a bridge"),
    Package("iptables", "/usr/sbin/iptables-nft", "makes Services reachable"),
    Package("iproute2", "ip", "joins the node to this machine"),
    Package("kmod", "modprobe", "loads the overlay and bridge filter modules"),
    Package("mount", "mount", "makes the node's private directories"),
    Package("util-linux", "unshare", "puts the node in namespaces of its own"),
)
MONITORING_PACKAGES = (
    Package("prometheus", "prometheus", "scrapes, and checks queries and rules"),
)
IMAGE_PACKAGES = (Package("debootstrap", "debootstrap", "makes the base layer of the images"),)

VLLM_PACKAGES = (Package("numactl", "numactl", "brings libnuma, which vLLM for CPUs loads"),)


def missing_packages(packages: tuple[Package, ...]) -> tuple[Package, ...]:
    """Return those whose program is not on this machine."""
    # Debian's sbin directories are not on every user's PATH.
    path = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"
    return tuple(item for item in packages if shutil.which(item.program, path=path) is None)


def install(
    packages: tuple[Package, ...], on_progress: Callable[[str, str], None] | None = None
) -> None:
    """Install what is missing through apt-get; with nothing missing, do nothing.

    Services of these packages are not started: the machine's own containerd is of no use to us.

    Raises:
        MissingRequirementsError: Not root, or no apt-get: the message lists the packages.
        DevClusterError: apt-get failed; its last lines are in the message.
    """
    missing = missing_packages(packages)
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise MissingRequirementsError(describe(missing))
    names = [item.name for item in missing]
    if on_progress:
        on_progress("packages", f"installing {', '.join(names)}")
    with _no_services():
        _apt_get("update")
        _apt_get("install", "--yes", "--no-install-recommends", *names)


def describe(missing: tuple[Package, ...]) -> tuple[str, ...]:
    """Say of each missing package what it is for, and how to get all of them."""
    if not missing:
        return ()
    command = f"apt-get install --no-install-recommends {' '.join(p.name for p in missing)}"
    return (
        *(f"Debian package {item.name}: {item.reason}" for item in missing),
        f"(as root: {command})",
    )


@contextmanager
def _no_services() -> Iterator[None]:
    """Forbid maintainer scripts to start services meanwhile, unless the machine has a policy."""
    try:
        with POLICY.open("x") as file:
            file.write("#!/bin/sh\nexit 101\n")  # 101: "action forbidden by policy"
    except FileExistsError:
        yield
        return
    try:
        POLICY.chmod(0o755)
        yield
    finally:
        POLICY.unlink()


def _apt_get(*arguments: str) -> None:
    done = subprocess.run(
        ["apt-get", "-o", "DPkg::Lock::Timeout=120", *arguments],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=INSTALL_TIMEOUT,
        check=False,
    )
    if done.returncode:
        raise DevClusterError(
            f"apt-get {arguments[0]} failed (exit {done.returncode}):\n{done.stdout[-1500:]}"
        )
