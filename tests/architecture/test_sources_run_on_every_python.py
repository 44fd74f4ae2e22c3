"""Python 3.12 and 3.13 compile what goes into images, and have what it imports of the library."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.representatives import others_are_slow
from support.scripts import ROOT

PACKAGES = (
    "crds/mm_api",
    "edge/mm_edge",
    "runtime/mm_runtime",
    "operator/mm_operator",
    "mmctl/mm_ctl",
    "router/mm_router",
)
VERSIONS = ("3.12", "3.13")
PYENV = Path("~/.pyenv/versions").expanduser()

PROGRAM = """
import ast, importlib, json, sys, warnings
from pathlib import Path
warnings.simplefilter("error")
problems = []
for path in sorted(path for root in sys.argv[1:] for path in Path(root).rglob("*.py")):
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        compile(tree, str(path), "exec")
    except (SyntaxError, Warning) as error:
        problems.append(f"{path}: {error}")
        continue
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [(one.name, None) for one in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [(node.module, one.name) for one in node.names]
        for module, name in names:
            if module.partition(".")[0] in LIBRARY:
                try:
                    found = importlib.import_module(module)
                    if name and not hasattr(found, name):
                        importlib.import_module(f"{module}.{name}")
                except (ImportError, Warning) as error:
                    problems.append(f"{path}: {error!r}")
print(json.dumps(problems))
"""


def interpreter(version: str) -> str | None:
    installed = sorted(PYENV.glob(f"{version}.*/bin/python"))
    found = shutil.which(f"python{version}")
    for candidate in (*map(str, installed), *([found] if found else [])):
        done = subprocess.run(
            [candidate, "--version"], capture_output=True, text=True, timeout=60, check=False
        )
        if done.stdout.startswith(f"Python {version}."):
            return candidate
    return None


def problems(version: str, *folders: str | Path) -> list[str]:
    """Return what an interpreter cannot compile or import; skips where there is none."""
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} on this machine")
    program = f"LIBRARY = {sorted(sys.stdlib_module_names)!r}\n{PROGRAM}"
    done = subprocess.run(
        [python, "-B", "-c", program, *map(str, folders)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        cwd=ROOT,
    )
    return list(json.loads(done.stdout))


@pytest.mark.parametrize("version", others_are_slow(VERSIONS, VERSIONS[0]))
def test_sources_are_for_this_version_too(version: str) -> None:
    """NVIDIA's images run 3.12, Debian's 3.11."""
    assert problems(version, *PACKAGES) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_version_lacks_is_found(version: str, tmp_path: Path) -> None:
    """A module that was removed, and an escape that is a warning now."""
    (tmp_path / "removed.py").write_text("import asyncore\n")
    (tmp_path / "escape.py").write_text('x = "\\d"\n')

    found = problems(version, tmp_path)

    assert [Path(one.partition(":")[0]).name for one in found] == ["escape.py", "removed.py"]
