"""The top layer of an image: our own packages, compiled, and their commands.

Small, so that a changed line of code is in the node well under a second later.
"""

import json
import py_compile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mm_devcluster.errors import DevClusterError
from mm_devcluster.images.layers import built_layer, layer_key
from mm_devcluster.images.oci import Entry, Layer, write_layer
from mm_devcluster.images.sources import LIBRARY, ROOT, SITE_PACKAGES, VENV

RECIPE = "2"  # a new number after a change below rebuilds the layer


@dataclass(frozen=True)
class Code:
    """Which of our packages and commands an image holds."""

    name: str
    packages: tuple[str, ...]
    """Folders of import packages, relative to the repository."""
    commands: tuple[str, ...]
    """Names from ``project.scripts`` in pyproject.toml."""


OPERATOR = Code(
    "operator-code",
    ("crds/mm_api", "edge/mm_edge", "operator/mm_operator", "router/mm_router"),
    ("mm-operator", "mm-router"),
)
RUNTIME = Code(
    "runtime-code", ("crds/mm_api", "edge/mm_edge", "runtime/mm_runtime"), ("mm-runtime",)
)


def code_layer(code: Code) -> Layer:
    """Return the layer of our packages as they are in the checkout now."""
    files = tuple(source_files(code))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    scripts = {name: project["scripts"][name] for name in code.commands}
    version = project["version"]
    contents = ((str(path.relative_to(ROOT)), path.read_bytes()) for path in files)
    inputs = (part for pair in contents for part in pair)
    key = layer_key((RECIPE, version, json.dumps(scripts), VENV, LIBRARY, *inputs))

    def write(path: Path, scratch: Path) -> Layer:
        return write_layer(_entries(code, files, scripts, version, scratch), path)

    return built_layer(f"{code.name}-{key}", write)


def source_files(code: Code) -> Iterator[Path]:
    """List the files of the packages, sorted, without what Python and editors leave behind."""
    for package in code.packages:
        for path in sorted((ROOT / package).rglob("*")):
            hidden = any(part.startswith((".", "__pycache__")) for part in path.parts)
            if path.is_file() and not hidden:
                yield path


def _entries(
    code: Code, files: tuple[Path, ...], scripts: dict[str, str], version: str, scratch: Path
) -> Iterator[Entry]:
    for package in code.packages:
        base = (ROOT / package).parent
        for path in files:
            if path.is_relative_to(ROOT / package):
                yield from _module_entries(path, f"{LIBRARY}/{path.relative_to(base)}", scratch)
    yield Entry(f"{SITE_PACKAGES}/multimodal-operator.pth", content=f"{LIBRARY}\n".encode())
    metadata = f"Metadata-Version: 2.4\nName: multimodal-operator\nVersion: {version}\n"
    info = f"{SITE_PACKAGES}/multimodal_operator-{version}.dist-info"
    yield Entry(f"{info}/METADATA", content=metadata.encode())
    yield Entry("/opt/multimodal/LICENSE", source=ROOT / "LICENSE")
    for name, target in scripts.items():
        yield command_entry(name, target)


def command_entry(name: str, target: str) -> Entry:
    """Return the program that calls `module:function`."""
    module, _, function = target.partition(":")
    text = f"#!{VENV}/bin/python\nimport sys\n\nfrom {module} import {function}\n\n"
    # Processes that it spawns import it, and must not start it again.
    text += f'if __name__ == "__main__":\n    sys.exit({function}())\n'
    return Entry(f"{VENV}/bin/{name}", content=text.encode(), mode=0o755)


def _module_entries(path: Path, target: str, scratch: Path) -> Iterator[Entry]:
    yield Entry(target, source=path)
    if path.suffix == ".py":
        compiled = scratch / "compiled.pyc"
        # Not checked against its source: nothing in an image changes, and times are zero there.
        try:
            py_compile.compile(
                str(path),
                cfile=str(compiled),
                dfile=target,
                doraise=True,
                invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
            )
        except py_compile.PyCompileError as error:
            raise DevClusterError(f"{path.relative_to(ROOT)} is not Python:\n{error}") from error
        folder, _, name = target.rpartition("/")
        cache = f"{folder}/__pycache__/{name.removesuffix('.py')}.cpython-311.pyc"
        yield Entry(cache, content=compiled.read_bytes())
