"""Image layers and documents have the same bytes whenever and wherever they are written."""

import io
import json
import os
import tarfile
from pathlib import Path

import pytest
import zstandard

from mm_devcluster.images.oci import (
    Entry,
    ImageConfig,
    Layer,
    build_image,
    tree_entries,
    write_archive,
    write_layer,
)


def write_tree(root: Path) -> Path:
    """Make a directory with a file, a program, a link and something to skip."""
    (root / "b" / "__pycache__").mkdir(parents=True)
    (root / "b" / "__pycache__" / "x.pyc").write_bytes(b"x")
    (root / "a.txt").write_text("text")
    (root / "b" / "run").write_text("#!/bin/sh\n")
    (root / "b" / "run").chmod(0o755)
    (root / "link").symlink_to("a.txt")
    return root


def members(layer: Layer) -> dict[str, tarfile.TarInfo]:
    assert layer.path is not None
    plain = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(layer.path.read_bytes())).read()
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        return {member.name: member for member in tar}


def test_two_layers_of_the_same_files_are_equal(tmp_path: Path) -> None:
    first, second = write_tree(tmp_path / "one"), write_tree(tmp_path / "two")
    os.utime(second / "a.txt", (1, 1))
    layers = [
        write_layer(tree_entries(root, "/opt"), tmp_path / f"{root.name}.tar.zst")
        for root in (first, second)
    ]
    assert layers[0].digest == layers[1].digest


def test_a_layer_keeps_modes_and_links_and_skips_what_is_excluded(tmp_path: Path) -> None:
    """A program stays executable, a link stays a link, owners are as requested."""
    root = write_tree(tmp_path / "tree")
    entries = tree_entries(root, "/opt", uid=5, skip={"__pycache__"})
    found = members(write_layer(entries, tmp_path / "layer"))
    assert sorted(found) == ["opt/a.txt", "opt/b", "opt/b/run", "opt/link"]
    run, link = found["opt/b/run"], found["opt/link"]
    assert (run.mode, run.uid, run.mtime, link.linkname) == (0o755, 5, 0, "a.txt")


def test_a_layer_that_the_node_has_is_left_out(tmp_path: Path) -> None:
    """The manifest still names it; only its bytes are missing."""
    layers = [
        write_layer([Entry(f"/{name}", content=name.encode())], tmp_path / name) for name in "ab"
    ]
    image = build_image("mm.local/x:1", ImageConfig(), layers)
    out = io.BytesIO()
    written = write_archive(image, out, leave_out={layers[0].digest})
    out.seek(0)
    with tarfile.open(fileobj=out) as tar:
        names = tar.getnames()
        index = json.load(tar.extractfile("index.json") or io.BytesIO())
    blobs = [layer.digest.removeprefix("sha256:") for layer in layers]
    assert written == 1
    assert [f"blobs/sha256/{blob}" in names for blob in blobs] == [False, True]
    assert index["manifests"][0]["annotations"]["io.containerd.image.name"] == "mm.local/x:1"


@pytest.mark.parametrize("reference", ["x:1", "mm.local/x", "library/x:1"], ids=str)
def test_a_reference_that_pods_would_spell_differently_is_refused(reference: str) -> None:
    """Kubernetes completes short names, so only full ones are found again."""
    with pytest.raises(ValueError, match="must read"):
        build_image(reference, ImageConfig(), [])
