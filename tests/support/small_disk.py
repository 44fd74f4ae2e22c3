"""A file system of a few megabytes that can really be full."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOUNT_SECONDS = 20


@contextmanager
def small_disk(path: Path, size: int) -> Iterator[Path]:
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "mm-test-store", str(path)]
    subprocess.run(mount, check=True, timeout=MOUNT_SECONDS)
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True, timeout=MOUNT_SECONDS)


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass
    return filler
