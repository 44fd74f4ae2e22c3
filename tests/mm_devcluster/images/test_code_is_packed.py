"""The top layer holds our packages, compiled, and the commands that pods run."""

import io
import tarfile
from pathlib import Path

import pytest
import zstandard

from mm_devcluster.errors import DevClusterError
from mm_devcluster.images import code
from mm_devcluster.images.catalogue import OPERATOR, compose
from mm_devcluster.images.oci import Layer

UNCHECKED = 1  # flags of a compiled file: found by hash, never compared with its source


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a small project of the same shape as ours, with a cache of its own."""
    monkeypatch.setenv("MM_CACHE_DIR", str(tmp_path / "cache"))
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
    assert layer.path is not None
    plain = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(layer.path.read_bytes())).read()
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        files = ((member.name, tar.extractfile(member)) for member in tar.getmembers())
        return {name: file.read() for name, file in files if file is not None}


def test_the_layer_holds_packages_commands_and_the_way_to_them(project: Path) -> None:
    """Everything that a pod needs is there, and nothing that Python left behind here."""
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
    """The code layer's digest follows the code."""
    before = code.code_layer(PACKED).digest
    (project / "operator" / "mm_operator" / "__init__.py").write_text('"""Another."""\n')
    assert code.code_layer(PACKED).digest != before


def test_a_file_that_is_not_python_is_named(project: Path) -> None:
    """An image is not built from code that cannot be imported."""
    (project / "operator" / "mm_operator" / "broken.py").write_text("def f(:\n")
    with pytest.raises(DevClusterError, match=r"mm_operator/broken\.py is not Python"):
        code.code_layer(PACKED)


def test_a_tag_names_the_content() -> None:
    """The same layers give the same reference, others another."""
    layer, other = (Layer(f"sha256:{x}", f"sha256:{x}", 1) for x in "ab")
    references = [compose(OPERATOR, layers).reference for layers in ([layer], [layer], [other])]
    assert references[0].startswith("localhost/multimodal/operator:")
    assert (references[0] == references[1], references[0] == references[2]) == (True, False)
