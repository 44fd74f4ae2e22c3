"""A layer is written once per key, and again when its file is damaged."""

from pathlib import Path

import pytest

from mm_devcluster.images.layers import built_layer, layer_key, layers_dir
from mm_devcluster.images.oci import Entry, Layer, write_layer


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


def test_a_layer_is_written_once() -> None:
    writer = Writer()
    first = built_layer("some-key", writer)
    second = built_layer("some-key", writer)
    assert (writer.calls, second) == (1, first)


def test_a_truncated_layer_is_written_again() -> None:
    writer = Writer()
    layer = built_layer("some-key", writer)
    assert layer.path is not None
    layer.path.write_bytes(b"short")
    again = built_layer("some-key", writer)
    assert (writer.calls, again) == (2, layer)


def test_a_failed_layer_leaves_nothing_behind() -> None:
    """What a failing writer left is removed, so that the next one starts clean."""

    def fail(path: Path, _scratch: Path) -> Layer:
        path.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        built_layer("some-key", fail)
    assert [path.name for path in layers_dir().iterdir() if path.is_dir()] == []


def test_every_input_changes_the_key() -> None:
    """Keys distinguish what was put in, and where one part ends and the next begins."""
    inputs: tuple[tuple[str | bytes, ...], ...] = (("ab",), ("a", "b"), ("b", "a"), (b"ab", "c"))
    keys = [layer_key(parts) for parts in inputs]
    assert len(set(keys)) == len(keys)
