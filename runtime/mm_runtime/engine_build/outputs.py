"""What a tool has really left: files, ranks, and a config that agrees with the plan."""

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mm_runtime.engine_build.step import Expected, Step

CONFIG = "config.json"
_ABSENT = object()


def remove_outputs(work: Path, step: Step) -> None:
    """Remove what an earlier attempt has left, so that nothing old passes for new."""
    for name in step.outputs:
        shutil.rmtree(work / name, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with an output, and whether the tool would do the same again."""

    message: str
    permanent: bool


def problem(work: Path, step: Step) -> Problem | None:
    """Return what is wrong with a finished step's output, None when nothing is."""
    for expected in step.expected:
        if wrong := _missing(work, expected):
            return Problem(wrong, permanent=False)
        folder = work / expected.folder
        if wrong := _foreign(work, expected) or _disagreement(folder, expected):
            return Problem(wrong, permanent=True)
    return None


def _missing(work: Path, expected: Expected) -> str | None:
    folder = work / expected.folder
    if not folder.is_dir():
        return f"the tool ended with 0 and did not write {expected.folder}"
    for name in expected.files:
        path = folder / name
        if not path.is_file():
            found = sorted(one.name for one in folder.iterdir())
            return (
                f"the tool ended with 0 and did not write {expected.folder}/{name}; it wrote"
                f" {', '.join(found) or 'nothing'}"
            )
        if not path.stat().st_size:
            return f"the tool ended with 0 and left {expected.folder}/{name} empty"
    return None


def _foreign(work: Path, expected: Expected) -> str | None:
    """A file of a rank that the plan does not have: the tool split the model otherwise."""
    ranks = {name for name in expected.files if name.startswith("rank")}
    if not ranks:
        return None
    suffix = Path(next(iter(ranks))).suffix
    found = {
        path.name
        for path in (work / expected.folder).iterdir()
        if re.fullmatch(rf"rank\d+{re.escape(suffix)}", path.name)
    }
    if found == ranks:
        return None
    return f"{expected.folder} holds {len(found)} ranks; the plan has {len(ranks)}"


def _disagreement(folder: Path, expected: Expected) -> str | None:
    if not expected.values:
        return None
    config = read_config(folder)
    if config is None:
        return f"{expected.folder}/{CONFIG} is not a JSON object"
    for path, value in expected.values:
        found = lookup(config, path)
        if found is _ABSENT:
            return f"{expected.folder}/{CONFIG} has no {path}; the plan says {value}"
        if found != value:
            return f"{expected.folder}/{CONFIG} says {path} = {found}; the plan says {value}"
    return None


def read_config(folder: Path) -> dict[str, Any] | None:
    """Return a tool's config.json; None: it cannot be read as an object."""
    try:
        config = json.loads((folder / CONFIG).read_bytes())
    except (OSError, ValueError):
        return None
    return config if isinstance(config, dict) else None


def lookup(config: dict[str, Any], path: str, default: Any = _ABSENT) -> Any:
    value: Any = config
    for key in path.split("."):
        if not isinstance(value, dict) or key not in value:
            return default
        value = value[key]
    return value
