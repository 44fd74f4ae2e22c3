"""A picture of a few kilobytes that is one pixel wide costs no gigabytes, whoever resizes it."""

import subprocess
import sys

import pytest

SECONDS = 60
ROOM = 768 << 20
"""Bytes of address space beside what the imports took: the largest square takes 268 MB."""

PROGRAM = """
import os, resource, sys
from PIL import Image
from mm_runtime.serving.preprocess.processors.resize import ImagePreprocessor
from mm_runtime.serving.preprocess.processors.prepared import Colours
from mm_runtime.serving.preprocess.processors.squares import SquareProcessor
from mm_runtime.serving.preprocess.processors.views import ViewProcessor

middle = (0.5, 0.5, 0.5)
squares = SquareProcessor(ImagePreprocessor(336, 336, middle, middle), 576)
colours = Colours(middle, middle, 1 / 255, Image.Resampling.BICUBIC)
views = ViewProcessor(colours, 384, 27, ((384, 384),), 9, single_views=True, video=True)
width, height, room = map(int, sys.argv[2:])
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
print(made[sys.argv[1]]())
"""

SHAPES = {
    "squares": "(2, 3, 336, 336)",
    "squares at the gateway": "(336, 336)",
    "one view": "(2, 3, 384, 384)",
    "two views": "(2, 3, 384, 384)",
    "views at the gateway": "(384, 384)",
}


@pytest.mark.parametrize("size", [(1, 500_000), (500_000, 1)], ids=["tall", "wide"])
@pytest.mark.parametrize("made", SHAPES)
def test_a_strip_does_not_become_a_giant(made: str, size: tuple[int, int]) -> None:
    """Resized by its shorter side it would be 336 x 168,000,000 pixels, padded 500,000 squared."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, made, *map(str, (*size, ROOM))],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert SHAPES[made] == done.stdout.strip()
