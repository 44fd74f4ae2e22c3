"""Image layers and documents have the same bytes whenever and wherever they are written."""

import io
import json
import os
import tarfile
from pathlib import Path

import pytest
import zstandard

from mm_devcluster.errors import DevClusterError
from mm_devcluster.images import code
from mm_devcluster.images.catalogue import OPERATOR, compose
from mm_devcluster.images.layers import built_layer, layer_key, layers_dir
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
    (root / "b" / "__pycache__").mkdir(parents=True)
    (root / "b" / "__pycache__" / "x.pyc").write_bytes(b"x")
    (root / "a.txt").write_text("text")
    (root / "b" / "run").write_text("#!/bin/sh\n")
    (root / "b" / "run").chmod(0o755)
    (root / "link").symlink_to("a.txt")
    return root


def members(layer: Layer) -> dict[str, tarfile.TarInfo]:
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


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MM_CACHE_DIR", str(tmp_path / "cache"))


class Writer:
    """Writes a layer and counts how often it was queried to."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, path: Path, scratch: Path) -> Layer:
        self.calls += 1
        (scratch / "hello").write_text("hello")
        return write_layer([Entry("/hello", source=scratch / "hello")], path)


def test_a_layer_is_written_once_unless_it_is_truncated() -> None:
    writer = Writer()
    layer = built_layer("some-key", writer)
    assert (built_layer("some-key", writer), writer.calls) == (layer, 1)
    layer.path.write_bytes(b"short")
    assert (built_layer("some-key", writer), writer.calls) == (layer, 2)


def test_a_failed_layer_leaves_nothing_behind() -> None:
    def fail(path: Path, _scratch: Path) -> Layer:
        path.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        built_layer("some-key", fail)
    assert [path.name for path in layers_dir().iterdir() if path.is_dir()] == []


def test_every_input_changes_the_key() -> None:
    inputs: tuple[tuple[str | bytes, ...], ...] = (("ab",), ("a", "b"), ("b", "a"), (b"ab", "c"))
    keys = [layer_key(parts) for parts in inputs]
    assert len(set(keys)) == len(keys)


UNCHECKED = 1  # flags of a compiled file: found by hash, never compared with its source


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "project"
    package = root / "operator" / "mm_operator"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('"""A package."""\n')
    (package / "py.typed").touch()
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "stale.pyc").touch()
    (root / "LICENSE").write_text("Apache-2.0\n")
    (root / "pyproject.toml").write_text(
        '[project]\nname = "x"\nversion = "0.1.0"\nscripts.mm-operator = "mm_operator:main"\n'
    )
    monkeypatch.setattr(code, "ROOT", root)
    return root


PACKED = code.Code("operator-code", ("operator/mm_operator",), ("mm-operator",))


def read_layer(layer: Layer) -> dict[str, bytes]:
    plain = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(layer.path.read_bytes())).read()
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        files = ((member.name, tar.extractfile(member)) for member in tar.getmembers())
        return {name: file.read() for name, file in files if file is not None}


def test_the_layer_holds_packages_commands_and_the_way_to_them(project: Path) -> None:
    assert project.exists()
    assert sorted(read_layer(code.code_layer(PACKED))) == [
        "opt/multimodal/LICENSE",
        "opt/multimodal/lib/mm_operator/__init__.py",
        "opt/multimodal/lib/mm_operator/__pycache__/__init__.cpython-311.pyc",
        "opt/multimodal/lib/mm_operator/py.typed",
        "opt/multimodal/venv/bin/mm-operator",
        "opt/multimodal/venv/lib/python3.11/site-packages/multimodal-operator.pth",
        "opt/multimodal/venv/lib/python3.11/site-packages/multimodal_operator-0.1.0.dist-info/METADATA",
    ]


def test_compiled_files_are_never_compared_with_their_source(project: Path) -> None:
    """Times in a layer are zero, so a file checked by time would be compiled at every start."""
    assert project.exists()
    files = read_layer(code.code_layer(PACKED))
    compiled = files["opt/multimodal/lib/mm_operator/__pycache__/__init__.cpython-311.pyc"]
    assert int.from_bytes(compiled[4:8], "little") == UNCHECKED


def test_a_changed_line_changes_the_layer(project: Path) -> None:
    before = code.code_layer(PACKED).digest
    (project / "operator" / "mm_operator" / "__init__.py").write_text('"""Another."""\n')
    assert code.code_layer(PACKED).digest != before


def test_a_file_that_is_not_python_is_named(project: Path) -> None:
    (project / "operator" / "mm_operator" / "broken.py").write_text("def f(:\n")
    with pytest.raises(DevClusterError, match=r"mm_operator/broken\.py is not Python"):
        code.code_layer(PACKED)


def test_a_tag_names_the_content() -> None:
    layer, other = (Layer(f"sha256:{x}", f"sha256:{x}", 1) for x in "ab")
    references = [compose(OPERATOR, layers).reference for layers in ([layer], [layer], [other])]
    assert references[0].startswith("localhost/multimodal/operator:")
    assert (references[0] == references[1], references[0] == references[2]) == (True, False)
