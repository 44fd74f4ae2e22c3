"""Crops: an image becomes the tiles of the grid of the nearest shape, then a view of all of it.

Servers of others cut it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from PIL import Image

from mm_runtime.images.processor_config import read_config
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.geometry.anyres import Size
from mm_runtime.serving.geometry.crops import nearest_grid, tiles_of
from mm_runtime.serving.preprocess.processors.prepared import (
    Detail,
    ImageProcessor,
    bounded,
    resampling,
)


@dataclass(frozen=True)
class CropProcessor(ImageProcessor):
    """Tiles of one checkpoint."""

    resample: Image.Resampling
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
            resample=resampling(config, Image.Resampling.BICUBIC),
            tile=vision.image_size,
            rows=vision.features_per_image,
            least=int(config.get("min_patches", 1)),
            most=max(1, vision.max_tiles - 1),
        )

    def with_detail(self, detail: Detail, count: int) -> "CropProcessor":
        """Return the processor of one tile an image for low detail."""
        del count
        if detail == "low" and self.least > 1:
            raise RequestError(
                f"expected `auto` or `high`: this model sees an image as {self.least} tiles at the "
                "least"
            )
        return replace(self, single=detail == "low")

    def rows_of(self, sizes: Sequence[Size]) -> tuple[int, ...]:
        return tuple(self.rows * tiles_of(self._grid(size)) for size in sizes)

    def reduced(self, image: Image.Image, count: int) -> Image.Image:
        """Return the image as large as the largest grid.

        An image beyond that is scaled down first, so what the tower sees of it was resized twice.
        """
        del count  # each is cut up
        if self.single:  # a square of one tile becomes no more
            return image.resize((self.tile, self.tile), resample=self.resample)
        return bounded(image, (self.tile * self.most) ** 2)

    def _grid(self, size: Size) -> Size:
        return nearest_grid(size, self.tile, least=self.least, most=self.most)
