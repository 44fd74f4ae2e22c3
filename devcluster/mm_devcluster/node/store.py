"""Image stores: containerd's root directories, leased to one cluster at a time.

A store outlives the cluster that used it, because importing the runtime image costs minutes and
the next cluster wants the same. Images stay; containers, sandboxes and their snapshots do not.
"""

import shutil
from pathlib import Path

from mm_devcluster.paths import cache_dir
from mm_devcluster.slots import Lease, try_lock

STORES = 16  # as many as there are slots: a cluster never waits for one


def stores_dir() -> Path:
    """Return the directory that holds every store and its lock file."""
    return cache_dir() / "image-stores"


def store_path(number: int) -> Path:
    """Return the directory of a store."""
    return stores_dir() / str(number)


def lease_store() -> Lease:
    """Lease the store with the most images among those that no cluster uses.

    Raises:
        RuntimeError: All are in use, which cannot be: there are as many as clusters.
    """
    for number in sorted(range(STORES), key=size_of, reverse=True):
        lease = try_lock(stores_dir() / f"{number}.lock", number)
        if lease is not None:
            store_path(number).mkdir(parents=True, exist_ok=True)
            return lease
    raise RuntimeError(f"all {STORES} image stores below {stores_dir()} are locked")


def purge_store(number: int) -> None:
    """Delete a store's images; its cluster must be stopped.

    Raises:
        RuntimeError: Another cluster has leased the store meanwhile.
    """
    lease = try_lock(stores_dir() / f"{number}.lock", number)
    if lease is None:
        raise RuntimeError(f"image store {store_path(number)} is in use by another cluster")
    shutil.rmtree(store_path(number), ignore_errors=True)
    lease.release()


def size_of(number: int) -> int:
    """Return the bytes of a store's content, compressed layers; unpacked snapshots not counted."""
    content = store_path(number) / "io.containerd.content.v1.content" / "blobs"
    return sum(path.stat().st_size for path in content.rglob("*") if path.is_file())
