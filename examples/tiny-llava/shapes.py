"""Images of coloured shapes, and which colour-shape pairs training never sees.

A scene is one to four things in a two by two grid, or one thing in the middle. All randomness comes
from the generator that is passed in, so a seed gives the same images everywhere.
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
"""Pairs that no training image shows, though it shows each colour and each shape."""

ALL_PAIRS = tuple(product(COLOURS, SHAPES))
SEEN_PAIRS = tuple(pair for pair in ALL_PAIRS if pair not in HELD_OUT)
UNSEEN_PAIRS = tuple(pair for pair in ALL_PAIRS if pair in HELD_OUT)

UNNAMED = ""
"""Colour or shape of a thing for which the model has no word.

Training mixes in such things, so that it learns a shape in any colour and a colour on any shape.
"""

MIDDLE_SHARE = 0.15
"""Share of single things that stand in the middle instead of in a quarter of the image."""

UNNAMED_DISTANCE = 100
"""Distance in RGB to every named colour; their own shades stay within 25."""

DRAWN_SIDE = 112
"""Pixels of an image's side as drawn for training; the processor halves it to the model's 56."""


@dataclass(frozen=True)
class Thing:
    """One coloured shape and where it stands."""

    colour: str
    shape: str
    cell: str


Scene = tuple[Thing, ...]


def random_scene(
    rng: np.random.Generator,
    pairs: tuple[tuple[str, str], ...],
    count: int,
    *,
    unnamed_share: float = 0.0,
) -> Scene:
    """Return `count` (1 to 4) things of the given pairs, in reading order.

    Args:
        rng: source of every choice.
        pairs: colours with shapes to choose from.
        count: number of things.
        unnamed_share: chance of a thing to have no word for its colour, and as much for its shape.
    """
    if count == 1 and rng.random() < MIDDLE_SHARE:
        cells = [MIDDLE]
    else:
        chosen = rng.choice(len(CELLS), size=count, replace=False)
        cells = [CELLS[index] for index in sorted(chosen)]
    return tuple(_random_thing(rng, pairs, cell, unnamed_share) for cell in cells)


def _random_thing(
    rng: np.random.Generator, pairs: tuple[tuple[str, str], ...], cell: str, unnamed_share: float
) -> Thing:
    colour, shape = pairs[int(rng.integers(len(pairs)))]
    chance = rng.random()
    if chance < unnamed_share:
        return Thing(UNNAMED, shape, cell)
    if chance < 2 * unnamed_share:
        return Thing(colour, UNNAMED, cell)
    return Thing(colour, shape, cell)


def draw(scene: Scene, rng: np.random.Generator, side: int = DRAWN_SIDE) -> Image.Image:
    """Return the scene as an RGB image of `side` x `side` pixels on a light background.

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
    fill = _fill(thing.colour, rng)
    x, y, half = float(centre[0]), float(centre[1]), float(size) / 2
    if thing.shape == "circle":
        pencil.ellipse([x - half, y - half, x + half, y + half], fill=fill)
    elif thing.shape == "square":
        pencil.rectangle([x - half, y - half, x + half, y + half], fill=fill)
    elif thing.shape == "triangle":
        pencil.polygon(_star(x, y, [half] * 3), fill=fill)
    elif thing.shape == "cross":
        bar = half / 3
        pencil.rectangle([x - half, y - bar, x + half, y + bar], fill=fill)
        pencil.rectangle([x - bar, y - half, x + bar, y + half], fill=fill)
    else:
        _draw_unnamed(pencil, (x, y, half), fill, rng)


def _draw_unnamed(
    pencil: ImageDraw.ImageDraw,
    place: tuple[float, float, float],
    fill: tuple[int, ...],
    rng: np.random.Generator,
) -> None:
    """Draw a star, a half disc or a bar: nothing that could be taken for a named shape."""
    x, y, half = place
    kind = int(rng.integers(3))
    if kind == 0:
        points = int(rng.integers(5, 8))
        pencil.polygon(_star(x, y, [half, half * rng.uniform(0.35, 0.5)] * points), fill=fill)
    elif kind == 1:
        start = int(rng.integers(4)) * 90
        pencil.pieslice([x - half, y - half, x + half, y + half], start, start + 180, fill=fill)
    else:
        wide, high = (half, half / 4) if rng.random() < 1 / 2 else (half / 4, half)
        pencil.rectangle([x - wide, y - high, x + wide, y + high], fill=fill)


def _star(x: float, y: float, radii: list[float]) -> list[tuple[float, float]]:
    """Return corners at these distances from the middle, evenly turned, the first on top."""
    angles = [2 * pi * index / len(radii) - pi / 2 for index in range(len(radii))]
    return [
        (x + r * cos(angle), y + r * sin(angle)) for r, angle in zip(radii, angles, strict=True)
    ]


def _fill(colour: str, rng: np.random.Generator) -> tuple[int, ...]:
    """Return a shade of the colour, or one that is far from every named colour and from white."""
    if colour != UNNAMED:
        shade = np.array(COLOURS[colour]) + rng.integers(-14, 15, size=3)
        return tuple(int(value) for value in np.clip(shade, 0, 255))
    known = np.array([*COLOURS.values(), (240, 240, 240)])
    while True:
        shade = rng.integers(0, 256, size=3)
        if np.sqrt(((known - shade) ** 2).sum(axis=1)).min() > UNNAMED_DISTANCE:
            return tuple(int(value) for value in shade)
