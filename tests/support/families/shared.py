"""Engines of families that take images, each built once in a session from its small checkpoint.

An export to ONNX takes three to six seconds of a core, and several files need the same families.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest

from mm_runtime.serving.directory import EngineDirectory
from support.families.images import write
from support.families.pipeline import build
from support.made_once import made_once


@dataclass(frozen=True)
class SharedFamily:
    """A checkpoint and the engine of it; no test changes either."""

    checkpoint: Path
    engine: EngineDirectory


def shared_family(factory: pytest.TempPathFactory, family: str) -> SharedFamily:
    folder = made_once(factory, f"family-{family}", lambda made: _make(family, made))
    (manifest,) = folder.glob("store/engines/*/manifest.json")
    return SharedFamily(folder / "checkpoint", EngineDirectory.open(manifest.parent))


def _make(family: str, folder: Path) -> None:
    build(write(family, folder / "checkpoint"), folder / "store")
