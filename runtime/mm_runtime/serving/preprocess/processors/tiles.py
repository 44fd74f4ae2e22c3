"""Llama 3.2 Vision: an image is laid on the canvas of tiles that fits it, padding included."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import floor
from typing import Any

import numpy as np
from PIL import Image

from mm_runtime.images.normalisation import Values
from mm_runtime.images.processor_config import read_config
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.preprocess.processors.prepared import (
    Colours,
    Detail,
    ImageProcessor,
    Prepared,
    Size,
    bounded,
)


@dataclass(frozen=True)
class TileProcessor(ImageProcessor):
    """Tiles and colours of one checkpoint."""

    colours: Colours
    side: int
    tiles: int
    positions: int
    """Features of a tile."""

    single: bool = False
    """An image is reduced to what fits one tile."""

    @classmethod
    def load(cls, engine: EngineDirectory) -> "TileProcessor":
        vision = engine.facts.vision
        if vision is None or vision.max_tiles is None:
            raise ValueError(f"{engine.root}: the facts of a Llama 3.2 Vision have no tiles")
        return cls(
            colours=Colours.of(read_config(engine.image_processor), Image.Resampling.BILINEAR),
            side=vision.image_size,
            tiles=vision.max_tiles,
            positions=vision.features_per_image // vision.max_tiles,
        )

    @property
    def fixed_rows(self) -> int:
        """None: cross attention reads images, and the prompt table has no rows of them."""
        return 0

    def with_detail(self, detail: Detail, count: int) -> "TileProcessor":
        del count
        return replace(self, single=detail == "low")

    def rows_of(self, sizes: Sequence[Size]) -> tuple[int, ...]:
        return (0,) * len(sizes)

    def cross_attention_rows(self, sizes: Sequence[Size]) -> int:
        shapes = [self.canvas(height, width) for height, width in sizes]
        return self.positions * sum(high * wide for high, wide in shapes)

    def reduced(self, image: Image.Image, count: int) -> Image.Image:
        """Return the image; one that is larger than a canvas of all tiles is scaled down."""
        del count  # each has a canvas of its own
        if self.single and max(image.size) > self.side:
            scale = self.side / max(image.size)
            size = (round(image.width * scale) or 1, round(image.height * scale) or 1)
            return image.resize(size, resample=self.colours.resample)
        return bounded(image, (self.tiles * self.side) ** 2)

    def prepare(self, images: list[Image.Image]) -> Prepared:
        """Return `PIXEL_VALUES` [images x tiles, 3, side, side] with ids and masks of tiles."""
        shapes = [self.canvas(image.height, image.width) for image in images]
        pixels = np.zeros((len(images), self.tiles, 3, self.side, self.side), dtype=np.float16)
        mask = np.zeros((len(images), self.tiles), dtype=np.int64)
        for at, (image, (high, wide)) in enumerate(zip(images, shapes, strict=True)):
            pixels[at, : high * wide] = self._cut(image, high, wide)
            mask[at, : high * wide] = 1
        arrangements = self._arrangements()
        tensors: dict[str, Any] = {
            "PIXEL_VALUES": pixels.reshape(-1, *pixels.shape[2:]),
            # 0 means no image.
            "ASPECT_RATIO_IDS": np.array([arrangements.index(shape) + 1 for shape in shapes]),
            "ASPECT_RATIO_MASK": mask,
        }
        return Prepared(tensors, (0,) * len(images))

    def _arrangements(self) -> list[tuple[int, int]]:
        sides = range(1, self.tiles + 1)
        return [(one, other) for one in sides for other in sides if one * other <= self.tiles]

    def canvas(self, height: int, width: int) -> tuple[int, int]:
        """Return tiles down and across: enlarged as little, or shrunk as little, as possible."""

        def scale(shape: tuple[int, int]) -> float:
            return min(shape[0] * self.side / height, shape[1] * self.side / width)

        shapes = self._arrangements()
        enlarging = [scale(shape) for shape in shapes if scale(shape) >= 1]
        best = min(enlarging) if enlarging else max(scale(shape) for shape in shapes)
        return min(
            (shape for shape in shapes if scale(shape) == best),
            key=lambda shape: shape[0] * shape[1],
        )

    def _cut(self, image: Image.Image, high: int, wide: int) -> Values:
        """Return float16 [high x wide, 3, side, side]."""
        height, width = image.height, image.width
        tall = min(max(height, self.side), high * self.side)
        broad = min(max(width, self.side), wide * self.side)
        if broad / width < tall / height:
            size = (broad, min(floor(height * (broad / width)) or 1, tall))
        else:
            size = (min(floor(width * (tall / height)) or 1, broad), tall)
        canvas = Image.new("RGB", (wide * self.side, high * self.side))
        canvas.paste(image.resize(size, resample=self.colours.resample))
        pixels = self.colours.normalised(canvas)
        blocks = pixels.reshape(3, high, self.side, wide, self.side).transpose(1, 3, 0, 2, 4)
        return blocks.reshape(-1, 3, self.side, self.side)
