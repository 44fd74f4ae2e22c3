"""The Python environments of the images, as layers below the code.

An environment is pinned with hashes by its file in requirements/. It is split in two layers where
a part of it is huge and changes rarely: torch with NVIDIA's libraries is imported into a node
once, and stays there when anything else is updated.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mm_devcluster.images.layers import Progress, built_layer, layer_key
from mm_devcluster.images.oci import Entry, Layer, tree_entries, write_layer
from mm_devcluster.images.sources import PYTHON, ROOT, SITE_PACKAGES, VENV, find_uv, run_step
from mm_devcluster.images.trim import PATTERNS, is_needed

INSTALL_TIMEOUT = 1800.0  # seconds; 2.9 GB of downloads on the first run
RECIPE = "1"  # a new number after a change below rebuilds the layers


@dataclass(frozen=True)
class Environment:
    """One pinned set of packages."""

    name: str
    """Name of its file in requirements/, and of its layers."""
    heavy: tuple[str, ...] = ()
    """Beginnings of the names of packages that get a layer of their own."""


OPERATOR = Environment("operator")
VLLM_CPU = Environment("vllm-cpu")
RUNTIME_CPU = Environment("runtime-cpu", heavy=("cuda-", "nvidia-c", "nvidia-n", "torch"))


def environment_layers(environment: Environment, progress: Progress) -> tuple[Layer, ...]:
    """Return the layers of an environment, lowest first, installing what is not in the cache.

    Raises:
        DevClusterError: uv could not install the packages.
    """
    text = (ROOT / "requirements" / f"{environment.name}.txt").read_text(encoding="utf-8")
    heavy, rest = split_requirements(text, environment.heavy)
    layers = []
    if heavy:
        layers.append(_layer(f"{environment.name}-heavy", heavy, progress, skeleton=False))
    layers.append(_layer(environment.name, rest, progress, skeleton=True))
    return tuple(layers)


def split_requirements(text: str, heavy: tuple[str, ...]) -> tuple[str, str]:
    """Split a requirements file into the packages whose names begin with ``heavy``, and the rest.

    A requirement is a line that starts at the margin, with its hashes on indented lines below.
    """
    parts: tuple[list[str], list[str]] = ([], [])
    chosen = parts[1]
    for line in text.splitlines(keepends=True):
        if line[:1].strip() and not line.startswith("#"):
            chosen = parts[0] if heavy and line.startswith(heavy) else parts[1]
        chosen.append(line)
    return "".join(parts[0]), "".join(parts[1])


def skeleton_entries() -> Iterator[Entry]:
    """Describe an empty virtual environment of Debian's interpreter.

    Triton's stub takes the environment from the ``python3`` that is first in PATH and ignores
    PYTHONPATH, so a plain directory of packages would not do.
    """
    yield Entry(f"{VENV}/pyvenv.cfg", content=b"home = /usr/bin\nversion_info = 3.11\n")
    yield Entry(f"{VENV}/bin/python3.11", link=PYTHON)
    yield Entry(f"{VENV}/bin/python3", link="python3.11")
    yield Entry(f"{VENV}/bin/python", link="python3.11")


def _layer(name: str, requirements: str, progress: Progress, *, skeleton: bool) -> Layer:
    patterns = (pattern.text for pattern in PATTERNS)
    key = layer_key((RECIPE, requirements, str(skeleton), VENV, PYTHON, *patterns))

    def write(path: Path, scratch: Path) -> Layer:
        progress(f"installing the packages of {name}")
        packages = scratch / "packages"
        (scratch / "requirements.txt").write_text(requirements, encoding="utf-8")
        command = [str(find_uv()), "pip", "install", "--quiet", "--python", PYTHON]
        command += ["--require-hashes", "--no-deps", "--compile-bytecode"]
        command += ["--requirement", str(scratch / "requirements.txt"), "--target", str(packages)]
        run_step(
            f"installing {name}",
            command,
            timeout=INSTALL_TIMEOUT,
            # Containers cannot write compiled files, and time stamps in a layer are zero: these
            # are compiled here and never compared with their source.
            environment={**os.environ, "PYC_INVALIDATION_MODE": "UNCHECKED_HASH"},
        )
        progress(f"packing the packages of {name}")
        return write_layer(_entries(packages, skeleton=skeleton), path)

    return built_layer(f"{name}-{key}", write)


def _entries(packages: Path, *, skeleton: bool) -> Iterator[Entry]:
    if skeleton:
        yield from skeleton_entries()
    for entry in tree_entries(packages, SITE_PACKAGES):
        if is_needed(entry.path.removeprefix(f"{SITE_PACKAGES}/")):
            yield entry
