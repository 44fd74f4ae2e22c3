"""Commands and manifests of README.md and the pages for users are what the programs take.

Nothing is run: mmctl and mm-lab parse their command lines, targets are of the Makefile, options of
Helm are values of the chart, and manifests are judged as the API server judges them.
"""

import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from mm_api.v1alpha1.validation import validate
from mm_ctl import cli as ctl
from mm_lab import cli as lab
from support.scripts import ROOT

PAGES = (
    ROOT / "README.md",
    *(
        page
        for part in ("start", "tasks", "reference")
        for page in (ROOT / "docs" / part).glob("*.md")
    ),
)
MINIMAL: dict[str, Any] = {
    "apiVersion": "serving.multimodal.dev/v1alpha1",
    "kind": "MultimodalModel",
    "metadata": {"name": "name"},
    "spec": {"model": {"source": {"persistentVolumeClaim": {"claimName": "claim"}}}},
}
PROGRAMS = {
    "mmctl": (ctl.main, "mm_ctl.commands", ctl.COMMANDS),
    "mm-lab": (lab.main, "mm_lab.commands", lab.COMMANDS),
}
VALUES = yaml.safe_load((ROOT / "charts" / "multimodal-operator" / "values.yaml").read_text())
TARGETS = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def _blocks(*languages: str) -> Iterator[tuple[str, str]]:
    pattern = re.compile(rf"^```(?:{'|'.join(languages)})\n(.*?)^```", re.DOTALL | re.MULTILINE)
    for page in PAGES:
        for number, match in enumerate(pattern.finditer(page.read_text(encoding="utf-8"))):
            yield f"{page.relative_to(ROOT)}-{number}", match[1]


def _commands(program: str) -> list[Any]:
    return [
        pytest.param(words[1:], id=f"{name}: {' '.join(words[1:4])}")
        for name, block in _blocks("sh", "bash", "")
        for line in block.replace("\\\n", " ").splitlines()
        for command in re.split(r" (?:\||&&|>) ", line.removeprefix("$ "))
        if command.startswith(f"{program} ")
        for words in [shlex.split(command, comments=True)]
    ]


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        pytest.param(program, *one.values, id=one.id)
        for program in PROGRAMS
        for one in _commands(program)
    ],
)
def test_programs_take_their_command_lines(
    program: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main, package, commands = PROGRAMS[program]
    for command in commands:
        module = f"{package}.{ctl.MODULES.get(command, command)}"
        monkeypatch.setattr(import_module(module), "run", lambda _: 0)
    if "--help" in arguments:
        return

    assert main(arguments) == 0


@pytest.mark.parametrize("arguments", _commands("make"))
def test_targets_exist(arguments: list[str]) -> None:
    assert {one for one in arguments if "=" not in one} <= TARGETS


@pytest.mark.parametrize("arguments", _commands("helm"))
def test_options_of_helm_are_values(arguments: list[str]) -> None:
    for option, pair in pairwise(arguments):
        if option.startswith("--set"):
            value: Any = VALUES
            for key in re.split(r"(?<!\\)\.", re.sub(r"\[\d+\]", "", pair.partition("=")[0])):
                if value == {}:  # takes any key
                    break
                assert key in value, pair
                value = value[key]


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in _blocks("yaml")])
def test_manifests_are_valid(text: str) -> None:
    for document in yaml.safe_load_all(text):
        if not isinstance(document, dict):
            continue
        if document.get("kind") == "MultimodalModel":
            assert validate(document) == []
        elif list(document) == ["spec"]:
            spec = MINIMAL["spec"] | document["spec"]
            assert validate(MINIMAL | {"spec": spec}) == []


def test_something_is_looked_at() -> None:
    assert len(_commands("mmctl")) > 5
    assert len(list(_blocks("yaml"))) > 20
    assert Path("README.md") in [page.relative_to(ROOT) for page in PAGES]
