"""Images and videos of one large coloured shape, questions about them, and the right answers.

All randomness comes from the generator that is passed in.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (220, 40, 40),
    "green": (45, 160, 60),
    "blue": (40, 80, 220),
    "yellow": (240, 210, 40),
    "purple": (135, 55, 185),
    "black": (25, 25, 25),
}
SHAPES = ("circle", "square", "triangle")
SIDE = 56
FRAMES = 4
"""Of a video of two seconds: two frames a second, of which the model merges two each."""

ABOUT_IMAGES = {
    "What is in the image?": "a {colour} {shape}",
    "What color is it?": "{colour}",
    "What shape is it?": "{shape}",
}
ABOUT_VIDEOS = {
    "What is in the video?": "first a {colour} {shape} then a {colour2} {shape}",
    "Which color is first?": "{colour}",
    "Which color is last?": "{colour2}",
}


@dataclass(frozen=True)
class Example:
    """Frames of one image or of a video, a question and its answer.

    Attributes:
        frames: uint8 [1 or `FRAMES`, side, side, 3].
    """

    frames: NDArray[np.uint8]
    question: str
    answer: str

    @property
    def is_video(self) -> bool:
        """Whether it is a video."""
        return len(self.frames) > 1


def draw(
    colour: str, shape: str, place: tuple[float, float, float], *, shade: int = 0
) -> Image.Image:
    """Return a shape on a light background; `place` is its centre and size, of 0 to 1."""
    image = Image.new("RGB", (2 * SIDE, 2 * SIDE), (240, 240, 236))
    pencil = ImageDraw.Draw(image)
    x, y, half = 2 * SIDE * place[0], 2 * SIDE * place[1], SIDE * place[2]
    fill = tuple(int(np.clip(part + shade, 0, 255)) for part in COLOURS[colour])
    if shape == "circle":
        pencil.ellipse([x - half, y - half, x + half, y + half], fill=fill)
    elif shape == "square":
        pencil.rectangle([x - half, y - half, x + half, y + half], fill=fill)
    else:
        pencil.polygon([(x, y - half), (x - half, y + half), (x + half, y + half)], fill=fill)
    return image.reduce(2)


def random_example(rng: np.random.Generator, *, video: bool) -> Example:
    """Return an example of training."""
    first, second = (str(one) for one in rng.choice(list(COLOURS), size=2, replace=False))
    shape = str(rng.choice(SHAPES))
    size = float(rng.uniform(0.5, 0.8))
    place = (float(rng.uniform(0.45, 0.55)), float(rng.uniform(0.45, 0.55)), size)
    shades = rng.integers(-18, 19, size=2)
    frames = [draw(first, shape, place, shade=int(shades[0]))]
    if video:
        late = draw(second, shape, place, shade=int(shades[1]))
        frames = frames * (FRAMES // 2) + [late] * (FRAMES // 2)
    known = ABOUT_VIDEOS if video else ABOUT_IMAGES
    question = str(rng.choice(list(known)))
    answer = known[question].format(colour=first, colour2=second, shape=shape)
    return Example(np.stack([np.asarray(frame) for frame in frames]), question, answer)
