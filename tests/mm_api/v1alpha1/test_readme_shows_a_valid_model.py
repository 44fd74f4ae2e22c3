"""README.md is short, and its manifest is one that the API takes."""

import re

import yaml

from mm_api.v1alpha1.validation import validate
from support.scripts import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
LIMIT_LINES = 90


def test_readme_is_short() -> None:
    """It is read at one go; what is longer belongs to docs/."""
    assert len(README.splitlines()) <= LIMIT_LINES


def test_set_up_is_two_commands() -> None:
    """The block of the set-up holds `make demo` and `make test` and nothing else."""
    assert "```\nmake demo\nmake test\n```\n" in README


def test_manifest_is_valid() -> None:
    manifests = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)

    assert [validate(yaml.safe_load(one)) for one in manifests] == [[]]
