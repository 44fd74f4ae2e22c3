"""Examples of docs/tasks/requests*.md: read from the pages and run as they stand."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from support.ensemble import DEADLINE_SECONDS
from support.tiny_llava import IMAGES

DOCS = Path(__file__).parents[2] / "docs" / "tasks"
PAGES = tuple(
    DOCS / f"requests{kind}.md" for kind in ("", "-tritonclient", "-tritonclient-video", "-openai")
)
USUAL = "tiny-llava"
"""The model of a section that names none."""

ANYTHING = "..."
"""Answer of a section whose model has random weights."""

_EXAMPLE = re.compile(
    r"^## (?P<title>[^\n]+)\n(?P<words>(?:(?!^## ).)*?)"
    r"^```(?P<kind>bash|python)\n(?P<code>.*?)^```\n\n```text\n(?P<answer>.*?)\n```$",
    re.DOTALL | re.MULTILINE,
)
_SERVED = re.compile(r"<!-- served: (\S+) -->")


@dataclass(frozen=True)
class Example:
    """One section of the page."""

    title: str
    served: str
    program: tuple[str, ...]
    code: str
    answer: str

    def run(self, addresses: Mapping[str, str]) -> str:
        code = self.code
        for written, real in addresses.items():
            code = code.replace(written, real)
        done = subprocess.run(
            [*self.program, code],
            cwd=IMAGES,
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return _texts(done.stdout) if self.program[0] == "bash" else done.stdout.rstrip("\n")


def examples(served: str) -> list[Example]:
    return [one for one in all_examples() if one.served == served]


def all_examples() -> list[Example]:
    return [_example(found) for page in PAGES for found in _EXAMPLE.finditer(page.read_text())]


def _example(found: "re.Match[str]") -> Example:
    served = _SERVED.search(found["words"])
    program = ("bash", "-euc") if found["kind"] == "bash" else (sys.executable, "-c")
    return Example(
        found["title"], served[1] if served else USUAL, program, found["code"], found["answer"]
    )


def _texts(answer: str) -> str:
    lines = (line.removeprefix("data: ") for line in answer.splitlines() if line)
    return "".join(map(_text, map(json.loads, lines)))


def _text(event: dict[str, object]) -> str:
    match event:
        case {"text_output": str(text)}:
            return text
        case {"choices": [{"message": {"content": str(text)}}]}:
            return text
    raise AssertionError(event)
