"""ARCHITECTURE.md fits the tree: what it names exists, and what exists is named."""

import configparser
import re
import subprocess
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
SHIPPED = (
    *("crds", "devcluster", "edge", "lab", "mmctl", "observability", "operator", "router"),
    "runtime",
)
_QUOTED = re.compile(r"`([\w./-]+(?:\.py|\.yaml|/))`")


def tracked(*patterns: str) -> list[PurePosixPath]:
    output = subprocess.run(
        ["git", "ls-files", "-z", *patterns], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    return [PurePosixPath(name) for name in output.split("\0") if name]


def tails(path: PurePosixPath) -> list[str]:
    return ["/".join(path.parts[first:]) for first in range(len(path.parts))]


def test_files_and_folders_that_are_named_exist() -> None:
    """Also those of which a row has the end only, as `plan/engine/encoders.py`."""
    paths = tracked()
    folders = {folder for path in paths for folder in path.parents}
    known = {tail for path in paths for tail in tails(path)}
    known |= {f"{tail}/" for folder in folders for tail in tails(folder)}

    assert sorted(set(_QUOTED.findall(PAGE)) - known) == []


def test_packages_are_named() -> None:
    """Each folder of shipped code has a row, or lies below or above one that has."""
    named = {one for one in _QUOTED.findall(PAGE) if one.count("/") > 1}
    folders = {path.parent for path in tracked(*(f"{folder}/*.py" for folder in SHIPPED))}
    missing = [
        str(folder)
        for folder in folders
        if not {f"{one}/" for one in (folder, *folder.parents)} & named
        if not any(one.startswith(f"{folder}/") for one in named)
    ]

    assert sorted(missing) == []


def test_modules_beside_packages_are_named() -> None:
    """A module that lies in no folder of its package is in a row by its name."""
    beside = [
        path
        for folder in ("crds/mm_api", "operator/mm_operator", "runtime/mm_runtime")
        for path in tracked(f"{folder}/*.py")
        if str(path.parent) == folder and not path.name.startswith("__")
    ]

    assert [str(path) for path in beside if path.name not in PAGE] == []


def test_layers_of_the_runtime_are_the_contracts() -> None:
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter", encoding="utf-8")
    layers = contracts["importlinter:contract:runtime-layers"]["layers"].split("\n")
    expected = [re.sub(r"[() ]", "", layer) for layer in layers if "__main__" not in layer]
    block = PAGE.split("each imports only those below it:\n\n```\n")[1].split("\n```")[0]
    stated = [line.split(" ..")[0].replace(" ", "") for line in block.split("\n")]

    assert stated == [layer for layer in expected if layer]
