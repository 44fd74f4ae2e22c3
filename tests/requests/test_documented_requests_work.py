"""Every example of docs/requests.md runs as it stands there and prints what stands below it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.ensemble import DEADLINE_SECONDS
from support.served import Served
from support.tiny_llava import PICTURES

pytestmark = pytest.mark.triton

PAGE = Path(__file__).parents[2] / "docs" / "requests.md"
EXAMPLE = re.compile(
    r"^## (?P<title>[^\n]+)\n(?:(?!^## ).)*?"
    r"^```(?P<kind>bash|python)\n(?P<code>.*?)^```\n\n```text\n(?P<answer>.*?)\n```$",
    re.DOTALL | re.MULTILINE,
)
EXAMPLES = [pytest.param(one, id=one["title"]) for one in EXAMPLE.finditer(PAGE.read_text())]


def test_every_section_has_an_example() -> None:
    """A section without a runnable example would be a promise that nobody keeps."""
    assert PAGE.read_text().count("\n## ") == len(EXAMPLES)


@pytest.mark.parametrize("example", EXAMPLES)
def test_example(served: Served, example: "re.Match[str]") -> None:
    """The example's answer is the text that the page shows."""
    code = example["code"].replace("localhost:8000", f"127.0.0.1:{served.http}")
    code = code.replace("localhost:8001", served.grpc_url)
    program = ["bash", "-euc"] if example["kind"] == "bash" else [sys.executable, "-c"]
    done = subprocess.run(
        [*program, code],
        cwd=PICTURES,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert example["answer"] == (_texts(done.stdout) if example["kind"] == "bash" else done.stdout)


def _texts(answer: str) -> str:
    """Return the text of a JSON answer, or of all events of a stream."""
    lines = (line.removeprefix("data: ") for line in answer.splitlines() if line)
    return "".join(json.loads(line)["text_output"] for line in lines)
