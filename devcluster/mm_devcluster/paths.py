"""Where the development cluster keeps things: a cache that may be deleted, and private state."""

import os
from pathlib import Path

PROJECT = "multimodal-operator"


def cache_dir() -> Path:
    """Return the directory of binaries and image stores.

    ``MM_CACHE_DIR``, else ``$XDG_CACHE_HOME/multimodal-operator``, else ``~/.cache/...``.
    """
    chosen = os.environ.get("MM_CACHE_DIR")
    if chosen:
        return Path(chosen).absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache").absolute() / PROJECT


def state_dir() -> Path:
    """Return the directory of running clusters: ``MM_STATE_DIR``, else below /var/tmp.

    Not /tmp and not /run: overlayfs and etcd want a real disk. Users other than root, who may
    run control planes, each have one of their own.
    """
    chosen = os.environ.get("MM_STATE_DIR")
    if chosen:
        return Path(chosen).absolute()
    user = os.geteuid()
    return Path("/var/tmp") / (f"{PROJECT}-{user}" if user else PROJECT)  # noqa: S108


def driver_dir() -> Path:
    """Return the folder of NVIDIA's driver, with ``bin`` and ``lib64``: ``MM_DRIVER_DIR``."""
    return Path(os.environ.get("MM_DRIVER_DIR") or "/usr/local/nvidia").absolute()


def cluster_dir(name: str) -> Path:
    """Return the private directory of one cluster; ``down`` deletes it."""
    return state_dir() / "clusters" / name


def go_modules_dir() -> Path:
    """Return the folder that holds the go.mod files of the cluster's programs."""
    return Path(__file__).resolve().parent.parent
