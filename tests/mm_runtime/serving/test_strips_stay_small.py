"""An image of a few kilobytes that is one pixel wide costs no gigabytes, wherever it is resized."""

import json
import subprocess
import sys

import pytest

SECONDS = 60
MEMORY_BYTES = 768 << 20
"""Bytes of address space beside what the imports took: the largest square takes 268 MB."""

PROGRAM = """
import json, os, resource, sys
from PIL import Image
from mm_runtime.serving.preprocess.processors.squares import SquareProcessor
from mm_runtime.serving.preprocess.processors.prepared import Colours
from mm_runtime.serving.preprocess.processors.squares import SquareProcessor
from mm_runtime.serving.preprocess.processors.views import ViewProcessor

middle = (0.5, 0.5, 0.5)
colours = Colours(middle, middle, 1 / 255, Image.Resampling.BICUBIC)
squares = SquareProcessor(336, 336, colours, rows=576)
views = ViewProcessor(colours, 384, 27, ((384, 384),), 9, single_views=True, video=True)
width, height, room = map(int, sys.argv[1:])
strips = [Image.new("RGB", (width, height), (220, 20, 20)) for _ in range(2)]
with open("/proc/self/statm") as file:
    taken = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
resource.setrlimit(resource.RLIMIT_AS, (taken + room, taken + room))
made = {
    "squares": lambda: squares.prepare(strips).tensors["PIXEL_VALUES"].shape,
    "squares at the gateway": lambda: squares.reduced(strips[0], 1).size,
    "one view": lambda: views.prepare(strips[:1]).tensors["PIXEL_VALUES"].shape,
    "two views": lambda: views.prepare(strips).tensors["PIXEL_VALUES"].shape,
    "views at the gateway": lambda: views.reduced(strips[0], 2).size,
}


def outcome(make):
    try:
        return str(make())
    except Exception as error:
        return repr(error)


print(json.dumps({name: outcome(make) for name, make in made.items()}))
"""

SHAPES = {
    "squares": "(2, 3, 336, 336)",
    "squares at the gateway": "(336, 336)",
    "one view": "(2, 3, 384, 384)",
    "two views": "(2, 3, 384, 384)",
    "views at the gateway": "(384, 384)",
}


STRIPS = [
    pytest.param((1, 500_000), id="tall"),
    pytest.param((500_000, 1), id="wide", marks=pytest.mark.slow),
]


@pytest.fixture(scope="module", params=STRIPS)
def outcomes(request: pytest.FixtureRequest) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, (*request.param, MEMORY_BYTES))],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("made", SHAPES)
def test_a_strip_does_not_become_a_giant(made: str, outcomes: dict[str, str]) -> None:
    """Resized by its shorter side it would be 336 x 168,000,000 pixels, padded 500,000 squared."""
    assert SHAPES[made] == outcomes[made]
