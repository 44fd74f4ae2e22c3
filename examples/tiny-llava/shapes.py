"""Pictures of coloured shapes, and which colour-shape pairs training never sees.

A scene is one to four things in a two by two grid, or one thing in the middle. All randomness comes
from the generator that is passed in, so a seed gives the same pictures everywhere.
"""

from dataclasses import dataclass
from itertools import product
from math import cos, pi, sin

import numpy as np
from PIL import Image, ImageDraw

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (220, 40, 40),
    "green": (45, 160, 60),
    "blue": (40, 80, 220),
    "yellow": (240, 210, 40),
    "orange": (245, 135, 30),
    "purple": (135, 55, 185),
    "pink": (250, 140, 195),
    "black": (25, 25, 25),
}
SHAPES = ("circle", "square", "triangle", "cross")
CELLS = ("top left", "top right", "bottom left", "bottom right")
MIDDLE = "center"
HELD_OUT = frozenset(
    {
        ("red", "cross"),
        ("green", "circle"),
        ("blue", "triangle"),
        ("yellow", "square"),
        ("orange", "circle"),
        ("purple", "cross"),
    }
)
"""Pairs that no training picture shows, though it shows each colour and each shape."""

ALL_PAIRS = tuple(product(COLOURS, SHAPES))
SEEN_PAIRS = tuple(pair for pair in ALL_PAIRS if pair not in HELD_OUT)
UNSEEN_PAIRS = tuple(pair for pair in ALL_PAIRS if pair in HELD_OUT)

MIDDLE_SHARE = 0.15
"""Share of single things that stand in the middle instead of in a quarter of the picture."""

DRAWN_SIDE = 112
"""Pixels of a picture's side as drawn for training; the processor halves it to the model's 56."""


@dataclass(frozen=True)
class Thing:
    """One coloured shape and where it stands."""

    colour: str
    shape: str
    cell: str


Scene = tuple[Thing, ...]


def random_scene(rng: np.random.Generator, pairs: tuple[tuple[str, str], ...], count: int) -> Scene:
    """Return `count` (1 to 4) things of the given pairs, in reading order."""
    if count == 1 and rng.random() < MIDDLE_SHARE:
        cells = [MIDDLE]
    else:
        chosen = rng.choice(len(CELLS), size=count, replace=False)
        cells = [CELLS[index] for index in sorted(chosen)]
    picked = [pairs[int(rng.integers(len(pairs)))] for _ in cells]
    return tuple(
        Thing(colour, shape, cell) for (colour, shape), cell in zip(picked, cells, strict=True)
    )


def draw(scene: Scene, rng: np.random.Generator, side: int = DRAWN_SIDE) -> Image.Image:
    """Return the scene as an RGB picture of `side` x `side` pixels on a light background.

    Drawn at twice the size and reduced, so edges are smooth. Size, place, colour and background
    vary a little with `rng`.
    """
    canvas = 2 * side
    background = tuple(int(value) for value in rng.integers(222, 256) - rng.integers(0, 8, size=3))
    image = Image.new("RGB", (canvas, canvas), background)
    pencil = ImageDraw.Draw(image)
    for thing in scene:
        _draw_thing(pencil, thing, rng, canvas)
    return image.reduce(2)


def _draw_thing(
    pencil: ImageDraw.ImageDraw, thing: Thing, rng: np.random.Generator, canvas: int
) -> None:
    """Draw one thing inside its quarter, or in the middle at up to 80 % of the side."""
    if thing.cell == MIDDLE:
        size = canvas * rng.uniform(0.35, 0.8)
        centre = canvas / 2 + rng.uniform(-0.04, 0.04, size=2) * canvas
    else:
        cell = canvas / 2
        column, row = CELLS.index(thing.cell) % 2, CELLS.index(thing.cell) // 2
        size = cell * rng.uniform(0.64, 0.9)
        slack = (cell - size) / 2
        centre = np.array([(column + 0.5) * cell, (row + 0.5) * cell])
        centre = centre + rng.uniform(-slack, slack, size=2)
    jitter = rng.integers(-14, 15, size=3)
    fill = tuple(
        int(np.clip(c + j, 0, 255)) for c, j in zip(COLOURS[thing.colour], jitter, strict=True)
    )
    x, y, half = float(centre[0]), float(centre[1]), float(size) / 2
    if thing.shape == "circle":
        pencil.ellipse([x - half, y - half, x + half, y + half], fill=fill)
    elif thing.shape == "square":
        pencil.rectangle([x - half, y - half, x + half, y + half], fill=fill)
    elif thing.shape == "triangle":
        corners = [-pi / 2, pi / 6, 5 * pi / 6]
        pencil.polygon([(x + half * cos(a), y + half * sin(a)) for a in corners], fill=fill)
    else:
        bar = half / 3
        pencil.rectangle([x - half, y - bar, x + half, y + bar], fill=fill)
        pencil.rectangle([x - bar, y - half, x + bar, y + half], fill=fill)
