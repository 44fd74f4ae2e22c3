"""Writes the model repository: beside its place, then one rename."""

import shutil
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from mm_runtime.errors import PermanentError
from mm_runtime.repository.layout import SHIPPED


def model_sources() -> dict[str, str]:
    """Return name -> source of the shipped Python models; PermanentError: one is missing."""
    models = resources.files("mm_runtime.repository") / "models"
    sources = {}
    for name in SHIPPED:
        path = models / f"{name}.py"
        if not path.is_file():
            raise PermanentError(
                f"{path} is missing: this image was built from an incomplete tree."
            )
        sources[name] = path.read_text(encoding="utf-8")
    return sources


def write_repository(directory: Path, files: Mapping[str, str]) -> None:
    """Put files into a directory that replaces an older one of that name completely."""
    beside = directory.with_name(f".{directory.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    for name, content in files.items():
        path = beside / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    if directory.exists():
        shutil.rmtree(directory)
    beside.rename(directory)
