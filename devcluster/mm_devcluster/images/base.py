"""The base layer of both images: a small Debian 12 with Debian's Python 3.11 and its library."""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from mm_devcluster.images.layers import Progress, built_layer, layer_key
from mm_devcluster.images.oci import Entry, Layer, tree_entries, write_layer
from mm_devcluster.images.sources import PYTHON, USER, run_step

SUITE = "bookworm"
PACKAGES = (
    "ca-certificates",  # the gateway fetches images over TLS
    "libpython3.11",  # Triton's stub links it; the interpreter's own package does not bring it
    "python3.11",
)
LEFT_OUT = (
    "/usr/share/doc/",  # 11 MB; /usr/share/doc/*/copyright stays, see below
    "/usr/share/locale/",
    "/usr/share/man/",
    "/var/cache/",
    "/var/lib/apt/lists/",
    "/var/log/",
)
RECIPE = "1"  # a new number after a change below rebuilds the layer
DEBOOTSTRAP_TIMEOUT = 900.0  # seconds; measured 34 s alone, 91 s on a busy machine

ACCOUNTS = {
    "/etc/passwd": f"nonroot:x:{USER}:{USER}:nonroot:/tmp:/usr/sbin/nologin\n",
    "/etc/group": f"nonroot:x:{USER}:\n",
}
"""Appended: libraries look up the name of their user (torch does) and fail without an entry."""


def base_layer(progress: Progress) -> Layer:
    """Return the base layer, bootstrapping Debian when it is not in the cache.

    Needs root, because debootstrap changes its root directory.

    Raises:
        DevClusterError: debootstrap failed.
    """
    key = layer_key((RECIPE, SUITE, *PACKAGES, *LEFT_OUT, *ACCOUNTS.values()))

    def write(path: Path, scratch: Path) -> Layer:
        progress(f"bootstrapping Debian {SUITE} (once)")
        root = scratch / "root"
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"} | {
            name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")
        }
        run_step(
            "making the base image",
            [
                "debootstrap",
                "--variant=minbase",
                f"--include={','.join(PACKAGES)}",
                SUITE,
                str(root),
            ],
            timeout=DEBOOTSTRAP_TIMEOUT,
            environment=environment,
        )
        # Time stamps in a layer are zero, so compiled files that are checked by time would all be
        # stale; these are not checked at all, as nothing in an image changes.
        run_step(
            "compiling Python's library",
            [
                "chroot",
                str(root),
                PYTHON,
                "-m",
                "compileall",
                "-q",
                "-f",
                "--invalidation-mode",
                "unchecked-hash",
                "/usr/lib/python3.11",
            ],
            timeout=DEBOOTSTRAP_TIMEOUT,
            environment=environment,
        )
        for name, line in ACCOUNTS.items():
            with (root / name.lstrip("/")).open("a", encoding="utf-8") as file:
                file.write(line)
        return write_layer(kept(tree_entries(root)), path)

    return built_layer(f"base-{key}", write)


def kept(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Leave out what no container reads, and take away every set-user-ID bit.

    Licences stay: Debian's copyright files go wherever its programs go.
    """
    for entry in entries:
        wanted = not any(entry.path.startswith(prefix) for prefix in LEFT_OUT)
        if wanted or entry.path.endswith("/copyright"):
            yield replace(entry, mode=entry.mode & ~(stat.S_ISUID | stat.S_ISGID))
