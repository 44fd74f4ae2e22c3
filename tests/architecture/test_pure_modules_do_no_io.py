"""A module that calls itself pure computes: it reads no file, no clock and no environment.

The contract of `.importlinter` holds the pure packages; this holds single modules among others.
"""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from support.cases import cases

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("crds", "operator", "runtime", "devcluster", "observability", "tools")
CLAIM = re.compile(r"^PURE: |\bPure\.$")
"""In the first line of a docstring."""
CLAIM_ANYWHERE = re.compile(r"PURE: |\bPure\.")
"""In any file that may make it: parsing all of them takes seconds."""

FORBIDDEN = frozenset(
    {
        *("aiohttp", "asyncio", "http", "httpx", "kopf", "kubernetes", "socket", "ssl"),
        *("concurrent", "multiprocessing", "queue", "select", "signal", "subprocess", "threading"),
        *("importlib", "io", "os", "shutil", "sys", "tempfile"),
        *("random", "secrets", "time", "uuid"),
    }
)
PATH_READS = frozenset(
    {
        *("exists", "glob", "is_dir", "is_file", "is_symlink", "iterdir", "readlink", "resolve"),
        *("lstat", "mkdir", "open", "read_bytes", "read_text", "rename", "rglob", "stat", "touch"),
        *("unlink", "write_bytes", "write_text"),
    }
)
"""Methods of `pathlib.Path` that leave the process; joining paths is arithmetic."""


def calls_itself_pure(tree: ast.Module) -> bool:
    return bool(CLAIM.search((ast.get_docstring(tree) or "").partition("\n")[0]))


def impurities(tree: ast.Module) -> Iterator[str]:
    """Yield what of a module leaves the process: imports, and calls of a path's methods."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (one.name for one in names if one.name.split(".")[0] in FORBIDDEN)
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in FORBIDDEN:
                yield module
            case ast.Call(func=ast.Attribute(attr=method)) if method in PATH_READS:
                yield f".{method}()"
            case ast.Call(func=ast.Name(id="open" | "print" | "input" as name)):
                yield f"{name}()"


def pure_modules() -> dict[str, ast.Module]:
    listed = subprocess.run(
        ["git", "ls-files", *(f"{source}/*.py" for source in SOURCES)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    texts = {
        name: (ROOT / name).read_text(encoding="utf-8") for name in listed if (ROOT / name).exists()
    }
    trees = {name: ast.parse(text) for name, text in texts.items() if CLAIM_ANYWHERE.search(text)}
    return {name: tree for name, tree in trees.items() if calls_itself_pure(tree)}


def test_pure_modules_are_pure() -> None:
    found = {name: sorted(impurities(tree)) for name, tree in pure_modules().items()}

    assert {name: what for name, what in found.items() if what} == {}
    assert found != {}


@cases(
    "source found",
    {
        "module": ("import os.path", ["os.path"]),
        "name": ("from time import monotonic", ["time"]),
        "within-a-function": ("def f():\n    import socket", ["socket"]),
        "file": ("Path('a').read_text()", [".read_text()"]),
        "open": ("open('a')", ["open()"]),
        "arithmetic": ("from pathlib import Path\nPath('a') / 'b'", []),
    },
)
def test_impurities_are_found(source: str, found: list[str]) -> None:
    assert list(impurities(ast.parse(source))) == found
