"""Which tests are unit tests: those that need neither torch nor Triton, servers, root or a cluster.

`tools/unit.py` runs them: `pytest -p support.needs --unit`. What a test needs is derived from its
markers, its fixtures and the imports of its file; it is declared nowhere else. `tools/unit.py`
hides all of it, so a test that needs something at run time without one of the three fails there:
it gets a marker.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES: tuple[str, ...] = tuple(
    tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"][
        "targets"
    ]["wheel"]["packages"]
)
"""Folders of our own packages, relative to the repository."""
SOURCES = ("tests", "tools", *(str(Path(package).parent) for package in PACKAGES))
"""Folders that hold packages, as `sys.path` has them in tests."""

LIBRARIES = frozenset(
    {
        "onnx",
        "onnxruntime",
        "onnxscript",
        "peft",
        "pytriton",
        "safetensors.torch",  # imports torch
        "tensorrt",
        "tensorrt_rtx",
        "tensorrt_rtx_bindings",
        "torch",
        "torchvision",
        "transformers",
        # Not the package itself: Triton's schema of model configurations is read from its folder.
        "tritonclient.grpc",
        "tritonclient.http",
        "tritonclient.utils",
    }
)
"""What the environment of a unit test may lack."""
MARKERS = frozenset(
    {"adversarial", "cluster", "e2e", "gpu", "root", "s3", "slow", "triton", "twin", "vllm"}
)
SERVERS = frozenset({"control_plane", "node_cluster", "prometheus", "s3"})
ENGINES = frozenset(
    {"built_engine", "language_model", "random_engine", "tiny_engine", "vision_site"}
)
FIXTURES = SERVERS | ENGINES
"""Fixtures that start a server, and those that load or build a model; others build on these."""
_IMPORT = re.compile(
    r"^(?:from (?P<module>[\w.]+) )?import (?P<names>\([^)]*\)|[^\n(]+)", re.MULTILINE
)
"""A statement of a module's own, at the beginning of a line."""
SUPPORT = frozenset({"support.prometheus", "support.small_disk"})
"""Helpers that start a server of the distribution, or mount."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--unit", action="store_true", help="unit tests only, see support.needs")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file that a unit test cannot import."""
    if not config.getoption("--unit"):
        return None
    if collection_path.is_dir():
        conftest = collection_path / "conftest.py"
        return True if conftest.is_file() and needed_by(conftest) & LIBRARIES else None
    is_test = collection_path.match("test_*.py")
    return True if is_test and (_marked(collection_path) or needed_by(collection_path)) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that need something by a marker or a fixture."""
    if config.getoption("--unit"):
        others = [item for item in items if _is_other(item)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if not _is_other(item)]


def _marked(file: Path) -> bool:
    """Report whether all tests of a file need something by a marker; pytest would import it."""
    content = file.read_bytes()
    return b"pytestmark" in content and any(
        isinstance(node, ast.Attribute) and node.attr in MARKERS
        for statement in ast.parse(content).body
        if isinstance(statement, ast.Assign)
        and any(isinstance(one, ast.Name) and one.id == "pytestmark" for one in statement.targets)
        for node in ast.walk(statement.value)
    )


def _is_other(item: pytest.Item) -> bool:
    marked = any(mark.name in MARKERS for mark in item.iter_markers())
    return marked or not FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


def needed_by(file: Path) -> frozenset[str]:
    """Return what importing a file loads of `LIBRARIES` and `SUPPORT`."""
    found: set[str] = set()
    seen, open_files = {file}, [file]
    while open_files:
        needs, files = _direct(open_files.pop())
        found |= needs
        new = [one for one in files if one not in seen]
        seen.update(new)
        open_files += new
    return frozenset(found)


@cache
def _direct(file: Path) -> tuple[frozenset[str], tuple[Path, ...]]:
    """Return what a file's own imports load, and the project's files that they run."""
    names = imports(file)
    needs = {one for name in names for one in with_parents(name)} & (LIBRARIES | SUPPORT)
    return frozenset(needs), tuple(dict.fromkeys(path for name in names for path in _files(name)))


def with_parents(name: str) -> frozenset[str]:
    parts = name.split(".")
    return frozenset(".".join(parts[:count]) for count in range(1, len(parts) + 1))


@cache
def imports(file: Path) -> tuple[str, ...]:
    """Return the names that a file imports when it is imported itself.

    Found by text: each process of `make unit` reads 1,900 files before its first test, and to parse
    them takes ten times as long.
    """
    source = "".join(file.read_text(encoding="utf-8").split('"""')[::2])
    return tuple(dict.fromkeys(name for one in _IMPORT.finditer(source) for name in _named(one)))


def _named(statement: re.Match[str]) -> Iterator[str]:
    parts = [one.partition("#")[0] for one in statement["names"].strip("()").splitlines()]
    names = [one.split()[0] for one in ",".join(parts).split(",") if one.strip()]
    if (module := statement["module"]) is None:
        yield from names
        return
    yield module
    # A name may be a module of its own.
    yield from (f"{module}.{name}" for name in names)


@cache
def _files(name: str) -> tuple[Path, ...]:
    """Return the project's files that the import of a module runs, its packages included."""
    return tuple(path for one in sorted(with_parents(name)) for path in modules().get(one, ()))


@cache
def modules() -> dict[str, list[Path]]:
    """Return dotted name -> files of that name; namespace packages have none."""
    found: dict[str, list[Path]] = {}
    for source in SOURCES:
        for path in (ROOT / source).rglob("*.py"):
            parts = path.relative_to(ROOT / source).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found.setdefault(name, []).append(path)
    return found
