"""What differs by family is an attribute of its record: no other module names a family.

A module that compares with a family's name, or imports the record of one, is a place that has
to be found when a family is added.
"""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from mm_api.families import FAMILIES
from support.cases import cases

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (
    *("crds", "edge", "operator", "router", "mmctl", "runtime", "observability"),
    *("devcluster", "lab", "tools"),
)
REGISTRY = "crds/mm_api/families/"
_SHARED = frozenset(
    {
        *("detection", "family", "known_classes", "layouts", "prompt"),
        *("upstream_classes", "processor_files"),
        *("stored_weights", "checkpoint_files", "text_block"),
    }
)
"""Modules of the registry that are no family's."""

_MODULES = frozenset(path.stem for path in (ROOT / REGISTRY).glob("[!_]*.py")) - _SHARED
"""A family's module; its record has the same name in capitals."""


NAMED = re.compile(rf"mm_api\.families|[\"'](?:{'|'.join(map(re.escape, FAMILIES))})[\"']")


def named(source: str) -> Iterator[str]:
    """Yield families that a module names: as a text, or by importing their module."""
    if not NAMED.search(source):
        return  # to parse all modules takes two seconds
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Constant(value=str(text)) if text in FAMILIES:
                yield text
            case ast.ImportFrom(module="mm_api.families", names=names):
                yield from (one.name for one in names if one.name.lower() in _MODULES)
            case ast.ImportFrom(module=str(module)) if module.startswith("mm_api.families."):
                yield from (one for one in [module.rpartition(".")[2]] if one in _MODULES)
            case ast.Import(names=names):
                found = (one.name.removeprefix("mm_api.families.") for one in names)
                yield from (one for one in found if one in _MODULES)


def modules() -> list[str]:
    """Return the modules that users run, seen from the root; the registry is none of them."""
    listed = subprocess.run(
        ["git", "ls-files", *(f"{source}/*.py" for source in SOURCES)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    return [name for name in listed if (ROOT / name).exists() and not name.startswith(REGISTRY)]


def test_no_module_names_a_family() -> None:
    found = {name: sorted(named((ROOT / name).read_text(encoding="utf-8"))) for name in modules()}

    assert {name: families for name, families in found.items() if families} == {}


@cases(
    "source families",
    {
        "compared": ('if family == "qwen2-vl":\n    pass', ["qwen2-vl"]),
        "key": ('TABLE = {"t5": 1, "opt": 2}', ["t5"]),
        "prose": ('"""Reads llava-onevision too."""', []),
        "module": ("from mm_api.families import FAMILIES, llava", ["llava"]),
        "record": ("from mm_api.families import MT5", ["MT5"]),
        "part-of-a-module": ("from mm_api.families.vila import CHAT", ["vila"]),
        "import": ("import mm_api.families.mbart", ["mbart"]),
        "shared": ("from mm_api.families.family import Kind", []),
    },
)
def test_names_are_found(source: str, families: list[str]) -> None:
    """Sentences may name a family, decisions may not."""
    assert list(named(source)) == families


def test_every_family_has_a_module() -> None:
    assert {name.replace("-", "_") for name in FAMILIES} == _MODULES
