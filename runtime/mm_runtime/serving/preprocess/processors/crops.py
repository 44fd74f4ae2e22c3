"""Crops: an image becomes the tiles of the grid of the nearest shape, then a view of all of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from mm_runtime.images.processor_config import read_config
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.geometry.anyres import Size
from mm_runtime.serving.geometry.crops import nearest_grid, tiles_of
from mm_runtime.serving.preprocess.processors.prepared import (
    Colours,
    Detail,
    ImageProcessor,
    Prepared,
    bounded,
    cut,
)


@dataclass(frozen=True)
class CropProcessor(ImageProcessor):
    """Tiles and colours of one checkpoint."""

    colours: Colours
    tile: int
    rows: int

    least: int
    most: int
    """Tiles of one image, without the view of all of it."""

    single: bool = False
    """An image is reduced to one tile, the view of all of it."""

    @classmethod
    def load(cls, engine: EngineDirectory) -> "CropProcessor":
        """Read the checkpoint's configuration."""
        vision, config = engine.facts.vision, read_config(engine.image_processor)
        if vision is None or vision.max_tiles is None:
            raise ValueError(f"{engine.root}: the facts have no number of tiles")
        return cls(
            colours=Colours.of(config, Image.Resampling.BICUBIC),
            tile=vision.image_size,
            rows=vision.features_per_image,
            least=int(config.get("min_patches", 1)),
            most=max(1, vision.max_tiles - 1),
        )

    def with_detail(self, detail: Detail, count: int) -> "CropProcessor":
        """Return the processor of one tile an image for low detail.

        Raises:
            RequestError: the checkpoint's images have more tiles at the least.
        """
        del count
        if detail == "low" and self.least > 1:
            raise RequestError(
                f"expected `auto` or `high`: this model sees an image as {self.least} tiles at the "
                "least"
            )
        return replace(self, single=detail == "low")

    def rows_of(self, sizes: Sequence[Size]) -> tuple[int, ...]:
        """Return the rows of all tiles and of the view."""
        return tuple(self.rows * tiles_of(self._grid(size)) for size in sizes)

    def reduced(self, image: Image.Image, count: int) -> Image.Image:
        """Return the image as large as the largest grid.

        An image beyond that is scaled down first, so what the tower sees of it was resized twice.
        """
        del count  # each is cut up
        if self.single:  # a square of one tile becomes no more
            return image.resize((self.tile, self.tile), resample=self.colours.resample)
        return bounded(image, (self.tile * self.most) ** 2)

    def prepare(self, images: list[Image.Image]) -> Prepared:
        """Return `PIXEL_VALUES` [tiles, 3, side, side] of all images."""
        tiles = [tile for image in images for tile in self._tiles(image)]
        pixels = np.stack([self.colours.normalised(tile) for tile in tiles])
        sizes = [(image.height, image.width) for image in images]
        return Prepared({"PIXEL_VALUES": pixels}, self.rows_of(sizes))

    def _grid(self, size: Size) -> Size:
        return nearest_grid(size, self.tile, least=self.least, most=self.most)

    def _tiles(self, image: Image.Image) -> list[Image.Image]:
        tiles = self._cut(image, self._grid((image.height, image.width)))
        if len(tiles) > 1:
            tiles.append(image.resize((self.tile, self.tile), resample=self.colours.resample))
        return tiles

    def _cut(self, image: Image.Image, grid: Size) -> list[Image.Image]:
        """Return the tiles of a grid that the image is scaled to."""
        rows, columns = grid
        high, wide = rows * self.tile, columns * self.tile
        canvas = image.resize((wide, high), resample=self.colours.resample)
        return cut(canvas, self.tile)
