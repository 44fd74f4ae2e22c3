"""Which classes of checkpoints vLLM serves with media, by its versions.

`vllm_classes.json` is written by `tools/vllm_tables.py` from vLLM's own registry.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files

_DATA = json.loads((files("mm_api") / "vllm_classes.json").read_text(encoding="utf-8"))

VERSIONS: tuple[str, ...] = tuple(_DATA["versions"])
"""Those that were read, the oldest first."""


@dataclass(frozen=True, slots=True)
class VllmClass:
    """A class in a run of versions, with `LoRA` and `PP` where it supports them."""

    first: str
    last: str
    supports: tuple[str, ...]


def classes_of(architecture: str) -> tuple[VllmClass, ...]:
    """Return what vLLM does with `architectures[0]`, version by version; empty: no class."""
    rows = _DATA["classes"].get(architecture, ())
    return tuple(VllmClass(first, last, tuple(supports)) for first, last, supports in rows)


def vllm_since(architectures: Iterable[str]) -> str | None:
    """Return the first version that has a class of a family; None: none is known."""
    return next((row.first for name in architectures for row in classes_of(name)), None)


def supported(architecture: str, version: str) -> tuple[str, ...] | None:
    """Return what the class supports in one of `VERSIONS`; None: that version has no class."""
    place = VERSIONS.index(version)
    for one in classes_of(architecture):
        if VERSIONS.index(one.first) <= place <= VERSIONS.index(one.last):
            return one.supports
    return None
