"""PURE: what importing a module of ours loads, and what else it imports while it works."""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from support.needs import ROOT, modules, with_parents

SOURCES = ROOT / "runtime" / "mm_runtime" / "sources"
OURS = ("mm_api", "mm_edge", "mm_runtime")


def packages_of(*roots: Path, guarded: Iterable[Path] = ()) -> dict[str, list[str]]:
    """Return third-party package -> our files that load it, of all that may run behind the roots.

    Our own modules are followed wherever they are imported. Packages count where importing one of
    these files loads them: what a function imports is for the image that needs the function. So are
    clients of sources, which only commands that fetch open, and what `guarded` files load, which
    look for a package first.
    """
    found: dict[str, list[str]] = {}
    seen, open_files = {*roots, *guarded}, list(roots)
    while open_files:
        file = open_files.pop()
        loaded, later = imports_of(file)
        for name in loaded:
            if not name.startswith(OURS):
                found.setdefault(name.partition(".")[0], []).append(file.stem)
        for name in (*loaded, *(() if file.parent == SOURCES else later)):
            for path in _own_files(name):
                if path not in seen:
                    seen.add(path)
                    open_files.append(path)
    return found


def _own_files(name: str) -> Iterator[Path]:
    if name.startswith(OURS):
        for one in sorted(with_parents(name)):
            yield from modules().get(one, ())


@cache
def imports_of(file: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    loaded: list[str] = []
    later: list[str] = []
    _walk(ast.parse(file.read_bytes()), loaded, later, in_function=False)
    return tuple(loaded), tuple(later)


def _walk(node: ast.AST, loaded: list[str], later: list[str], *, in_function: bool) -> None:
    into = later if in_function else loaded
    match node:
        case ast.Import():
            into += [alias.name for alias in node.names]
        case ast.ImportFrom(module=str(module)):
            into += [module, *(f"{module}.{alias.name}" for alias in node.names)]
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            for one in node.orelse:
                _walk(one, loaded, later, in_function=in_function)
        case _:
            inside = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for one in ast.iter_child_nodes(node):
                _walk(one, loaded, later, in_function=inside)
