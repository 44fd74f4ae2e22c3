"""Commands of pages, typed as they stand there: in order, in bash, each once.

A block of `text` below them is what they print; `...` in it is anything. A block of `yaml` below
"Save this as `FILE`" is saved.
"""

import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from support.scripts import ROOT

TYPED_SECONDS = 600
WATCHED_SECONDS = 5
BLOCK = re.compile(
    r"(?:Save this as `(\S+)`[^`]*)?^```(sh|text|yaml)\n(.*?)^```", re.DOTALL | re.MULTILINE
)
NOT_HERE = ("docker ",)
"""No daemon runs here; the pages have a command for that."""


@dataclass
class Person:
    """Who reads pages and types, in a folder that looks like a checkout."""

    folder: Path
    environment: Mapping[str, str]
    chosen: Mapping[str, str]
    """Words of the pages -> what replaces them here."""
    typed: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for path in ROOT.iterdir():
            (self.folder / path.name).symlink_to(path)

    def read(self, page: str, section: str = "", chosen: Mapping[str, str] = {}) -> None:
        """Type the commands of a page, or of the section whose heading begins so."""
        text = (ROOT / page).read_text(encoding="utf-8")
        if section:
            text = text[text.index(f"\n## {section}") + 1 :].partition("\n## ")[0]
        for word, value in {**self.chosen, **chosen}.items():
            text = re.sub(rf"\b{word}\b", value, text)
        printed = ""
        for file, language, block in BLOCK.findall(text):
            if language == "sh":
                printed = self._type(block)
            elif language == "text":
                for line in block.splitlines():
                    pattern = r"\s+".join(re.escape(word) for word in line.split())
                    assert re.search(pattern.replace(r"\.\.\.", ".*"), printed), (line, printed)
            elif file:
                (self.folder / file).write_text(block, encoding="utf-8")

    def _type(self, block: str) -> str:
        new = [one for one in commands(block) if one not in self.typed]
        self.typed.update(new)
        script = "".join(map(_interrupted, new)) if not block.startswith(NOT_HERE) else ""
        with tempfile.TemporaryFile("w+") as output:
            # What was put in the background ends with its shell, as with a terminal.
            shell = ["timeout", str(TYPED_SECONDS), "bash", "-e", "-o", "pipefail", "-xc"]
            command = [*shell, f"trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}"]
            done = subprocess.run(  # noqa: PLW1510 (its output says why)
                command, cwd=self.folder, env=self.environment, stdout=output, stderr=output
            )
            output.seek(0)
            printed = output.read()
        assert done.returncode == 0, printed
        return printed


def commands(block: str) -> Iterator[str]:
    """Yield the commands of a block: lines up to the one at which bash can parse them."""
    command = ""
    for line in block.splitlines(keepends=True):
        command += line
        parsed = subprocess.run(["bash", "-nc", command], capture_output=True, check=False)
        if not (parsed.returncode or line.endswith("\\\n")):
            yield command
            command = ""


def _interrupted(command: str) -> str:
    """Press Ctrl-C where a command watches or serves."""
    if command.endswith((" -w\n", " --follow\n")) or command.startswith("mmctl ui "):
        return f"timeout {WATCHED_SECONDS} {command.rstrip()} || [ $? = 124 ]\n"
    return command
