"""The wheel `mmctl` and the plugin of kubectl: what mm_ctl imports, and no more.

The wheel holds the modules that importing all of mm_ctl loads, with the planner and the inspection
among them: no server, no torch. `tools/release.py` puts it into a release.
"""

import ast
import gzip
import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDERS: Final = {
    "mm_ctl": "mmctl",
    "mm_api": "crds",
    "mm_operator": "operator",
    "mm_runtime": "runtime",
}
"""Package -> the folder that it lies in."""
SCRIPTS: Final = ("mmctl", "kubectl-mm", "kubectl_complete-mm")
_CODE: Final = (".py", ".pyc")

LAUNCHER: Final = """\
#!/bin/sh
# kubectl mm: mmctl in an environment of its own, which the first run makes in the user's cache.
set -eu
here=$(dirname "$(readlink -f "$0")")
home=${XDG_CACHE_HOME:-$HOME/.cache}/mmctl/VERSION
if [ ! -e "$home/.complete" ]; then
  fits="import sys, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 14))"
  for python in python3.13 python3.12 python3.11 python3 none; do
    if "$python" -c "$fits" 2>/dev/null; then break; fi
  done
  if [ "$python" = none ]; then
    echo "kubectl mm: Python 3.11, 3.12 or 3.13 is missing on PATH: install one" >&2
    exit 1
  fi
  echo "kubectl mm: installing mmctl VERSION into $home, once" >&2
  rm -rf "$home"
  "$python" -m venv "$home"
  "$home/bin/pip" install --quiet --require-hashes --requirement "$here/requirements.txt"
  "$home/bin/pip" install --quiet --no-deps "$here"/mmctl-*.whl
  : >"$home/.complete"
fi
exec "$home/bin/kubectl-mm" "$@"
"""


def modules() -> set[Path]:
    """Return the files of our packages that importing each module of mm_ctl may load."""
    seen: set[Path] = set()
    left = sorted((ROOT / "mmctl" / "mm_ctl").rglob("*.py"))
    while left:
        file = left.pop()
        if file not in seen:
            seen.add(file)
            for name in imported(file):
                left += files_of(name)
    return seen


def imported(file: Path) -> Iterator[str]:
    """Yield the names that a file imports anywhere but for type checkers."""
    left: list[ast.AST] = [ast.parse(file.read_bytes())]
    while left:
        node = left.pop()
        match node:
            case ast.Import():
                yield from (one.name for one in node.names)
            case ast.ImportFrom(module=str(module)):
                yield module
                yield from (f"{module}.{one.name}" for one in node.names)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                left += node.orelse
            case _:
                left += ast.iter_child_nodes(node)


def files_of(name: str) -> list[Path]:
    """Return the files that importing a name of ours loads, its packages' among them."""
    package, *_ = parts = name.split(".")
    if package not in FOLDERS:
        return []
    ends = [Path(ROOT, FOLDERS[package], *parts[:count]) for count in range(1, len(parts) + 1)]
    places = [place for end in ends for place in (end / "__init__.py", end.with_suffix(".py"))]
    return [place for place in places if place.is_file()]


def build_wheel(out: Path) -> Path:
    """Write the wheel into a folder and return it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with tempfile.TemporaryDirectory() as scratch:
        code = modules()
        for file in (*code, *_tables({one.parent for one in code})):
            _copy(file, Path(scratch))
        for name in ("LICENSE", "README.md"):
            shutil.copyfile(ROOT / name, Path(scratch, name))
        Path(scratch, "pyproject.toml").write_text(_project(project), encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "-t",
            "wheel",
            "-d",
            str(out.resolve()),
        ]
        subprocess.run(command, cwd=scratch, check=True, capture_output=True, timeout=120)
    return out / f"mmctl-{project['version']}-py3-none-any.whl"


def _tables(packages: set[Path]) -> Iterator[Path]:
    """Yield what is no code, in or one folder below packages that the wheel has."""
    for package, folder in FOLDERS.items():
        for path in sorted((ROOT / folder / package).rglob("*")):
            is_table = path.is_file() and path.suffix not in _CODE
            if is_table and not packages.isdisjoint(path.parents[:2]):
                yield path


def _project(project: dict[str, Any]) -> str:
    """Return pyproject.toml of the wheel, from the repository's."""
    needed = [*project["dependencies"], *project["optional-dependencies"]["mmctl"]]
    scripts = "".join(f'{name} = "{project["scripts"][name]}"\n' for name in SCRIPTS)
    return f"""\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "mmctl"
version = "{project["version"]}"
description = "Plans, validates, uploads for and explains MultimodalModel resources."
readme = "README.md"
license = "Apache-2.0"
license-files = ["LICENSE"]
requires-python = "{project["requires-python"]}"
dependencies = {json.dumps(needed)}

[project.scripts]
{scripts}
[tool.hatch.build.targets.wheel]
packages = {json.dumps(list(FOLDERS))}
"""


def _copy(file: Path, target: Path) -> None:
    relative = Path(*file.relative_to(ROOT).parts[1:])
    (target / relative).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, target / relative)


def build_plugin(out: Path, wheel: Path, version: str, url: str) -> Path:
    """Write the archive of `kubectl mm` and its manifest for krew; return the archive.

    Args:
        out: Folder.
        wheel: That of mmctl.
        version: Of the release.
        url: Where the archive will be.
    """
    pins = (ROOT / "requirements" / "mmctl.txt").read_bytes()
    files = {
        "kubectl-mm": (LAUNCHER.replace("VERSION", version).encode(), 0o755),
        "LICENSE": ((ROOT / "LICENSE").read_bytes(), 0o644),
        "requirements.txt": (pins, 0o644),
        wheel.name: (wheel.read_bytes(), 0o644),
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, (content, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    archive = out / "kubectl-mm.tar.gz"
    archive.write_bytes(gzip.compress(packed.getvalue(), mtime=0))
    (out / "mm.krew.yaml").write_text(
        yaml.safe_dump(_manifest(archive, version, url), sort_keys=False), encoding="utf-8"
    )
    return archive


def _manifest(archive: Path, version: str, url: str) -> dict[str, Any]:
    systems = {"key": "os", "operator": "In", "values": ["darwin", "linux"]}
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "mm"},
        "spec": {
            "version": f"v{version}",
            "shortDescription": "Plan, explain and query MultimodalModels",
            "description": (
                "Plans the GPU memory of a multimodal model from its checkpoint, validates and "
                "explains MultimodalModel resources, and queries their models.\n"
            ),
            "caveats": "Needs Python 3.11, 3.12 or 3.13. The first run installs mmctl with pip.\n",
            "platforms": [
                {
                    "selector": {"matchExpressions": [systems]},
                    "uri": url,
                    "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
                    "bin": "kubectl-mm",
                }
            ],
        },
    }
