"""Keep layers between runs: a layer's key is everything that decides its bytes.

A layer under its key is complete and never changed; a changed key writes a new one beside it.
"""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mm_devcluster.images.oci import Entry, Layer, write_layer
from mm_devcluster.paths import cache_dir

FORMAT = "1"  # a new number after a change in how layers are written rebuilds every layer

Progress = Callable[[str], None]
"""Receives what is being done, in a few words, for people."""


def layers_dir() -> Path:
    """Return the directory that holds one folder per layer."""
    return cache_dir() / "layers"


def layer_key(inputs: Iterable[str | bytes]) -> str:
    """Compute the key of a layer from everything that decides its bytes: 16 hex digits."""
    digest = hashlib.sha256(FORMAT.encode())
    for part in inputs:
        content = part.encode() if isinstance(part, str) else part
        digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()[:16]


def cached_layer(key: str, entries: Callable[[], Iterable[Entry]]) -> Layer:
    """Return a layer of existing files from the cache, writing it first when it is not there.

    Args:
        key: Names everything that decides the layer's bytes; becomes its folder's name.
        entries: Lists the files; called only when the layer must be written.
    """
    return built_layer(key, lambda path, _: write_layer(entries(), path))


def built_layer(name: str, write: Callable[[Path, Path], Layer]) -> Layer:
    """Return a layer from the cache, making its files and writing it when it is not there.

    Two callers at once write once: the second waits for the first.

    Args:
        name: What the layer is and its ``layer_key``: becomes its folder's name.
        write: Gets the file to write and an empty scratch directory on the same disk (so that
            packages can be hard links), and returns the layer.
    """
    folder = layers_dir() / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _exclusive(layers_dir() / f"{name}.lock"):
        known = _read(folder)
        if known is not None:
            return known
        unfinished = layers_dir() / f"{name}.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        scratch = unfinished / "scratch"
        scratch.mkdir(parents=True)
        try:
            layer = write(unfinished / "layer.tar.zst", scratch)
            shutil.rmtree(scratch)
            _describe(layer, unfinished)
            unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return Layer(layer.digest, layer.diff_id, layer.size, folder / "layer.tar.zst")


def _read(folder: Path) -> Layer | None:
    try:
        known = json.loads((folder / "layer.json").read_text(encoding="utf-8"))
        path = folder / "layer.tar.zst"
        if path.stat().st_size == known["size"]:
            return Layer(known["digest"], known["diff_id"], known["size"], path)
    except FileNotFoundError:
        return None
    # Truncated by a full disk or edited: written again.
    shutil.rmtree(folder)
    return None


def _describe(layer: Layer, folder: Path) -> None:
    document = {"digest": layer.digest, "diff_id": layer.diff_id, "size": layer.size}
    (folder / "layer.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
