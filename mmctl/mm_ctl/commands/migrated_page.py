"""A migrated resource as YAML below comments that say what changed, field by field."""

import json
import textwrap
from collections.abc import Iterator
from typing import Any

import yaml

from mm_ctl.documents import name_of
from mm_ctl.migration.change import Change, Effect
from mm_ctl.migration.migrate import Migration

_WIDTH = 98
_CHECK = "to check"


def as_page(migration: Migration, plans: list[str]) -> str:
    """Return the page; `plans` are lines of both plans side by side, or none."""
    lines = [
        f"{name_of(migration.document)}: TensorRT engines -> TensorRT-LLM on PyTorch",
        "by `mmctl migrate`; what changed, by field of spec:",
        *(line for change in migration.changes for line in _change(change)),
        *(line for effect, note in migration.notes for line in _wrapped(effect or _CHECK, note)),
    ]
    if plans:
        lines += ["plans before and after (* differs):", *plans]
    comments = "\n".join(f"# {line}".rstrip() for line in lines)
    content = yaml.safe_dump(migration.document, sort_keys=False, width=_WIDTH)
    return f"{comments}\n{content}"


def _change(change: Change) -> Iterator[str]:
    values = f"{_shown(change.before)} -> {_shown(change.after)}"
    yield from _wrapped(change.effect, f"{change.path}: {values}: {change.why}")


def _wrapped(effect: Effect | str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=f"  {effect:<13}",
        subsequent_indent=" " * 15,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _shown(value: Any) -> str:
    return "absent" if value is None else json.dumps(value)
