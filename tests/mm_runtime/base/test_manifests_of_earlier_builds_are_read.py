"""Engines that an earlier version built are served without being built again."""

import json
from pathlib import Path

import pytest

from mm_api.documents.engine_manifest import MANIFEST_NAME
from mm_runtime.base import manifest as manifests
from mm_runtime.errors import EngineCorruptError
from support.gateways import toy_manifest


def _written(folder: Path, **fields: object) -> Path:
    path = folder / MANIFEST_NAME
    path.write_text(json.dumps(json.loads(toy_manifest().to_json()) | fields))
    return path


def test_a_recorded_answer_is_left_out(tmp_path: Path) -> None:
    """Builds have recorded an answer of the engine's own; nothing compares it any more."""
    answer = {"text": "What is it?", "pictures": 1, "tokens": [7, 8], "answer": "a red"}
    assert toy_manifest() == manifests.read(_written(tmp_path, golden=answer))


def test_any_other_unknown_field_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineCorruptError, match="goldens: Extra inputs are not permitted"):
        manifests.read(_written(tmp_path, goldens={}))
