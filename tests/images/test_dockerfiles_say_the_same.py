"""The Dockerfiles and our own image builder make images of the same content."""

import re

import pytest

from mm_devcluster.images import base, trim
from mm_devcluster.images.catalogue import OPERATOR, RECIPES, RUNTIME, VARIABLES, Recipe
from mm_devcluster.images.sources import LIBRARY, ROOT, USER

IDS = [recipe.name for recipe in RECIPES]


def dockerfile(recipe: Recipe) -> str:
    """Return a Dockerfile's text with continued lines joined."""
    text = (ROOT / recipe.name / "Dockerfile").read_text()
    return re.sub(r"\\\n\s*", "", text)


@pytest.mark.parametrize("recipe", RECIPES, ids=IDS)
def test_the_base_is_the_same(recipe: Recipe) -> None:
    """Suite, Debian packages, account and variables agree."""
    text = dockerfile(recipe)
    packages = re.search(r"--no-install-recommends (ca-certificates [^&]*?)\s*&&", text)
    variables = re.search(r"^ENV (.*)$", text, re.MULTILINE)
    assert packages is not None
    assert variables is not None
    assert tuple(packages[1].split()) == base.PACKAGES
    assert dict(item.split("=", 1) for item in variables[1].split()) == VARIABLES
    assert f"FROM debian:{base.SUITE}-slim AS base" in text
    assert all(line.strip() in text for line in base.ACCOUNTS.values())


@pytest.mark.parametrize("recipe", RECIPES, ids=IDS)
def test_the_content_is_the_same(recipe: Recipe) -> None:
    """Environment, packages of ours, commands, user and entry point agree."""
    text = dockerfile(recipe)
    copied = re.findall(rf"^COPY (\S+) ({LIBRARY}/\S+)$", text, re.MULTILINE)
    commands = re.search(r"/install_commands\.py ([\w -]+?)\s*&&", text)
    assert commands is not None
    assert f"--requirement /requirements/{recipe.environment.name}.txt" in text
    assert copied == [
        (package, f"{LIBRARY}/{package.rpartition('/')[2]}") for package in recipe.code.packages
    ]
    assert tuple(commands[1].split()) == recipe.code.commands
    assert f"USER {USER}:{USER}" in text
    assert f'ENTRYPOINT ["/opt/multimodal/venv/bin/{recipe.entrypoint}"]' in text


def test_the_same_files_are_left_out_of_the_runtime() -> None:
    """Every pattern that trims a package appears in the runtime's Dockerfile."""
    text = dockerfile(RUNTIME)
    packages = [p.text for p in trim.PATTERNS if p.text not in {"bin/*", ".lock"}]
    missing = [
        pattern
        for pattern in packages
        if pattern.removesuffix("/*") not in text
        and f"-name '*{pattern.rpartition('*')[2]}' -delete" not in text
    ]
    assert missing == []


def test_the_operator_has_no_torch() -> None:
    """The operator's pinned environment holds neither torch nor Triton."""
    text = (ROOT / "requirements" / f"{OPERATOR.environment.name}.txt").read_text()
    assert re.findall(r"^(torch|transformers|nvidia\S*|tritonclient)==", text, re.MULTILINE) == []
