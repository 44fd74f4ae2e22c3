"""Every MultimodalModel under examples/ is one that the API takes."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from mm_api import labels
from mm_api.v1alpha1.validation import validate
from support.scripts import ROOT


def _models() -> list[tuple[Path, dict[str, Any]]]:
    return [
        (path.relative_to(ROOT), document)
        for path in sorted((ROOT / "examples").rglob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        if document and document.get("kind") == labels.KIND
    ]


def test_examples_have_models() -> None:
    assert Path("examples/tiny-llava.yaml") in [path for path, _ in _models()]


@pytest.mark.parametrize("document", [pytest.param(one, id=str(path)) for path, one in _models()])
def test_example_is_valid(document: dict[str, Any]) -> None:
    assert validate(document) == []
