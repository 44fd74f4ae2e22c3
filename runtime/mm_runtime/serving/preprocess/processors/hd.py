"""HD: an image is scaled to the widest grid of tiles; a view of all of it comes first."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from PIL import Image

from mm_runtime.images.processor_config import read_config
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.geometry import hd
from mm_runtime.serving.geometry.anyres import Size
from mm_runtime.serving.preprocess.processors.pixel_values import pixel_values
from mm_runtime.serving.preprocess.processors.prepared import (
    Colours,
    Detail,
    ImageProcessor,
    Prepared,
    bounded,
)

PADDED = (255, 255, 255)
"""White, above and below an image, or left and right of a tall one."""


@dataclass(frozen=True)
class HdProcessor(ImageProcessor):
    """Tiles and colours of one checkpoint."""

    colours: Colours
    tile: int
    rows: int

    most: int
    """Tiles of one image, without the view of all of it."""

    @classmethod
    def load(cls, engine: EngineDirectory) -> "HdProcessor":
        """Read the checkpoint's configuration."""
        vision = engine.facts.vision
        if vision is None or vision.max_tiles is None:
            raise ValueError(f"{engine.root}: the facts have no number of tiles")
        config = read_config(engine.image_processor)
        return cls(
            colours=Colours.of(config, Image.Resampling.BILINEAR),
            tile=vision.image_size,
            rows=vision.features_per_image,
            most=vision.max_tiles - 1,
        )

    def with_detail(self, detail: Detail, count: int) -> "HdProcessor":
        """Return itself.

        Raises:
            RequestError: low detail: every image is scaled up to the same number of tiles.
        """
        del count
        if detail == "low":
            raise RequestError(
                "expected `auto` or `high`: this model scales every image to as many tiles as it "
                "reads of one"
            )
        return self

    def rows_of(self, sizes: Sequence[Size]) -> tuple[int, ...]:
        """Return the rows of tiles, view and what stands between them."""
        return tuple(hd.rows_of_grid(self._grid(size), self.rows) for size in sizes)

    def reduced(self, image: Image.Image, count: int) -> Image.Image:
        """Return the image as large as the largest grid.

        An image beyond that is scaled down first, so what the tower sees of it was resized twice.
        """
        del count  # each is cut up
        self._grid((image.height, image.width))
        return bounded(image, self.most * self.tile**2)

    def prepare(self, images: list[Image.Image]) -> Prepared:
        """Return `PIXEL_VALUES` [tiles, 3, side, side] and `IMAGE_SIZES`, height and width each."""
        sizes = [(image.height, image.width) for image in images]
        rows = self.rows_of(sizes)
        tiles = np.concatenate([self._tiles(image) for image in images])
        flat = np.array(sizes, dtype=np.int64).reshape(-1)
        return Prepared({"PIXEL_VALUES": tiles.astype(np.float16), "IMAGE_SIZES": flat}, rows)

    def _grid(self, size: Size) -> Size:
        grid = hd.grid_of(size, self.tile, self.most)
        if grid is None:
            height, width = size
            raise RequestError(
                f"an image of {width} x {height} pixels is too thin: scaled to "
                f"{self.most} tiles its shorter side would have no pixel"
            )
        return grid

    def _tiles(self, image: Image.Image) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        """Return the view and the tiles, float32 [1 + tiles, 3, side, side]."""
        size = (image.height, image.width)
        scaled = hd.scaled_size(size, self.tile, self.most)
        assert scaled is not None  # noqa: S101  # or it would have no grid
        # A tall image is turned before it is scaled, as upstream does it; what is padded follows.
        turned = image.width < image.height
        flat = image.transpose(Image.Transpose.TRANSPOSE) if turned else image
        short, long = sorted(scaled)
        flat = flat.resize((long, short), resample=self.colours.resample)
        high = ceil(short / self.tile) * self.tile
        canvas = Image.new("RGB", (long, high), PADDED)
        canvas.paste(flat, (0, (high - short) // 2))
        if turned:
            canvas = canvas.transpose(Image.Transpose.TRANSPOSE)
        pixels = pixel_values(
            canvas,
            mean=self.colours.mean,
            std=self.colours.std,
            rescale=self.colours.rescale,
            dtype=np.float32,
        )
        view = hd.shrunk_to_tile(pixels, self.tile)
        return np.concatenate((view[None], hd.tiles_of(pixels, self.tile)))
