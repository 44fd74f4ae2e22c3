"""Every Dockerfile copies what exists, installs what is locked, and runs commands that parse.

Nothing here builds one: there is no container engine.
"""

import re
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from mm_devcluster.images.sources import ROOT
from support.cases import cases

FILES = ("operator/Dockerfile", *(f"runtime/Dockerfile{kind}" for kind in ("", ".cuda", ".trtllm")))
INSTRUCTIONS = frozenset({"ARG", "COPY", "ENTRYPOINT", "ENV", "FROM", "RUN", "USER"})
FLAG = re.compile(r"^--\S+ ")


class Instruction(NamedTuple):
    """One instruction, its lines joined."""

    name: str
    text: str


def instructions(text: str) -> Iterator[Instruction]:
    """Yield the instructions as a builder reads them: comments left out, lines continued."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    for joined in "\n".join(lines).replace("\\\n", " ").splitlines():
        name, _, rest = joined.partition(" ")
        yield Instruction(name, " ".join(rest.split()))


def parsed(name: str) -> list[Instruction]:
    return list(instructions((ROOT / name).read_text(encoding="utf-8")))


def copies(found: list[Instruction]) -> Iterator[tuple[str, list[str], str]]:
    """Yield stage (empty: the repository), sources and destination of each COPY."""
    for one in found:
        if one.name == "COPY":
            stage = one.text.partition(" ")[0].removeprefix("--from=")
            words = FLAG.sub("", one.text).split()
            yield (stage if one.text.startswith("--from=") else "", words[:-1], words[-1])


@pytest.mark.parametrize("name", FILES)
def test_every_instruction_is_known_and_a_user_with_a_name_runs_the_program(name: str) -> None:
    found = parsed(name)

    assert {one.name for one in found} <= INSTRUCTIONS
    assert found[-1].name == "ENTRYPOINT"
    assert [one.text for one in found if one.name == "USER"][-1] == "65532:65532"
    assert any("nonroot:x:65532:65532" in one.text for one in found)


@pytest.mark.parametrize("name", FILES)
def test_what_is_copied_exists(name: str) -> None:
    found = parsed(name)
    stages = {one.text.rpartition(" AS ")[2] for one in found if " AS " in one.text}
    sources = [(stage, source) for stage, several, _ in copies(found) for source in several]

    assert {source for stage, source in sources if not stage and not (ROOT / source).exists()} == (
        set()
    )
    assert {stage for stage, _ in sources if stage} <= stages


@pytest.mark.parametrize("name", FILES)
def test_what_is_installed_is_copied_and_hashed(name: str) -> None:
    found = parsed(name)
    copied = {source for _, several, _ in copies(found) for source in several}
    installed = {
        match for one in found for match in re.findall(r"--requirement /(\S+\.txt)", one.text)
    }
    installs = [one.text.count("pip install") for one in found if one.name == "RUN"]
    hashed = [one.text.count("--require-hashes") for one in found if one.name == "RUN"]

    assert len(installed) >= 2
    assert installed <= copied
    assert installs == hashed
    for path in installed:
        pins = (ROOT / path).read_text(encoding="utf-8").split("==")[1:]
        assert [pin.partition("\n")[0] for pin in pins if "--hash=sha256:" not in pin] == []


@pytest.mark.parametrize("name", FILES)
def test_commands_parse(name: str) -> None:
    for one in parsed(name):
        if one.name == "RUN":
            subprocess.run(["sh", "-n"], input=one.text, text=True, timeout=60, check=True)


@cases(
    "text names",
    {
        "continued": ("RUN a \\\n && b\n# no\nUSER x\n", ["RUN", "USER"]),
        "lost-backslash": ("RUN a\n && b\n", ["RUN", ""]),
    },
)
def test_the_reader_sees_lost_lines(text: str, names: list[str]) -> None:
    assert [one.name for one in instructions(text)] == names
