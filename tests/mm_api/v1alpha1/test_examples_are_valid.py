"""Every MultimodalModel of examples/ and of README.md, which is short, is one the API takes."""

import re
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


README = (ROOT / "README.md").read_text(encoding="utf-8")
LIMIT_LINES = 90


def test_readme_is_short() -> None:
    """It is read at one go; what is longer belongs to docs/."""
    assert len(README.splitlines()) <= LIMIT_LINES


def test_set_up_is_two_commands() -> None:
    assert "```\nmake demo\nmake test\n```\n" in README


def test_manifest_is_valid() -> None:
    manifests = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)

    assert [validate(yaml.safe_load(one)) for one in manifests] == [[]]
