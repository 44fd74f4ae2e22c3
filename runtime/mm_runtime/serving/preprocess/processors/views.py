"""Views: an image becomes a view of all of it and the tiles of the grid that fits it best.

Several images in one request are cut up each, or are one view each, padded to a square; the
frames of a video are one view each: as the family was trained.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from PIL import Image

from mm_api.families import FAMILIES
from mm_runtime.images.processor_config import read_config
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.geometry.anyres import VIDEO_POOL, Size, best_grid, rows_of_image
from mm_runtime.serving.preprocess.processors.prepared import (
    NO_VIDEO,
    Colours,
    Detail,
    ImageProcessor,
    Prepared,
    bounded,
    cut,
)

_LONGEST_SIDE = 8192
"""Side of an image that is padded to a square: a strip of 1 x 100,000 pixels would take 40 GB. What
is longer, more than cameras make, is scaled down first."""


@dataclass(frozen=True)
class ViewProcessor(ImageProcessor):
    """Grids and colours of one checkpoint."""

    colours: Colours
    tile: int
    side: int
    """Patches along a side of one tile."""

    grids: tuple[Size, ...]
    limit: int | None
    single_views: bool
    """Each of several images is one view."""

    video: bool

    @classmethod
    def load(cls, engine: EngineDirectory) -> "ViewProcessor":
        """Read the checkpoint's configuration."""
        vision, family = engine.facts.vision, FAMILIES[engine.facts.family]
        if vision is None or vision.grid_pinpoints is None:
            raise ValueError(f"{engine.root}: the facts of a {family.title} have no grids")
        return cls(
            colours=Colours.of(read_config(engine.image_processor), Image.Resampling.BICUBIC),
            tile=vision.image_size,
            side=vision.image_size // vision.patch_size,
            grids=tuple(vision.grid_pinpoints),
            limit=vision.grid_limit,
            single_views=family.layout.features_of_several is not None,
            video=family.layout.video_features is not None,
        )

    def with_detail(self, detail: Detail, count: int) -> "ViewProcessor":
        if detail == "low" and not (self.single_views and count > 1):
            raise RequestError(
                "expected `auto` or `high`: this model sees an image as a view of all of it and "
                "tiles; for fewer tokens send a smaller image"
            )
        return self

    def rows_of(self, sizes: Sequence[Size]) -> tuple[int, ...]:
        """Return the rows of base view and grid, or of one view where that is all."""
        if self.single_views and len(sizes) != 1:
            return (self.side**2 + 1,) * len(sizes)
        return tuple(
            rows_of_image(size, self.grids, tile=self.tile, side=self.side, limit=self.limit)
            for size in sizes
        )

    def reduced(self, image: Image.Image, count: int) -> Image.Image:
        """Return the one view of an image, or the image as large as the largest grid.

        An image beyond that grid is scaled down first, so what the tower sees of it was resized
        twice; its grid is that of the smaller image.
        """
        if self.single_views and count > 1:
            return self._squared(image)
        return bounded(image, max(max(grid) for grid in self.grids) ** 2)

    def video_rows(self, frames: int, size: Size) -> int:
        del size  # every frame is one view
        if not self.video:
            raise NO_VIDEO
        return frames * ceil(self.side / VIDEO_POOL) ** 2 + 1

    def reduced_frame(self, frame: Image.Image) -> Image.Image:
        if not self.video:
            raise NO_VIDEO
        return self._resized(frame, (self.tile, self.tile))

    def prepare(self, images: list[Image.Image]) -> Prepared:
        """Return `PIXEL_VALUES` [tiles, 3, side, side] and `IMAGE_SIZES`, height and width each."""
        sizes = [(image.height, image.width) for image in images]
        if self.single_views and len(images) != 1:
            tiles = [self._squared(image) for image in images]
        else:
            tiles = [tile for image in images for tile in self._tiles(image)]
        return self._prepared(tiles, self.rows_of(sizes), sizes, is_video=False)

    def prepare_video(self, frames: list[Image.Image]) -> Prepared:
        """Return `PIXEL_VALUES` [frames, 3, side, side]; all frames become one run of rows."""
        views = [self.reduced_frame(frame) for frame in frames]
        size = (frames[0].height, frames[0].width)
        rows = self.video_rows(len(frames), size)
        return self._prepared(views, (rows,), [size], is_video=True)

    def _prepared(
        self, tiles: list[Image.Image], rows: tuple[int, ...], sizes: list[Size], *, is_video: bool
    ) -> Prepared:
        pixels = np.stack([self.colours.normalised(tile) for tile in tiles])
        tensors: dict[str, Any] = {
            "PIXEL_VALUES": pixels,
            "IMAGE_SIZES": np.array(sizes, dtype=np.int64).reshape(-1),
            "IS_VIDEO_INPUT": np.array([is_video]),
        }
        return Prepared(tensors, rows)

    def _tiles(self, image: Image.Image) -> list[Image.Image]:
        high, wide = best_grid((image.height, image.width), self.grids)
        # As transformers: the side that is scaled less is filled, the other one rounded up.
        across, down = wide / image.width, high / image.height
        if across < down:
            fitted = (min(ceil(image.height * across), high), wide)
        else:
            fitted = (high, min(ceil(image.width * down), wide))
        canvas = Image.new("RGB", (wide, high))
        canvas.paste(
            self._resized(image, fitted), ((wide - fitted[1]) // 2, (high - fitted[0]) // 2)
        )
        return [self._resized(image, (self.tile, self.tile)), *cut(canvas, self.tile)]

    def _squared(self, image: Image.Image) -> Image.Image:
        """Return one view of an image on a square of the mean colour."""
        longest = max(image.size)
        if longest > _LONGEST_SIDE:
            height, width = (max(1, side * _LONGEST_SIDE // longest) for side in image.size[::-1])
            image, longest = self._resized(image, (height, width)), _LONGEST_SIDE
        background = tuple(int(value * 255) for value in self.colours.mean)
        square = Image.new("RGB", (longest, longest), background)
        square.paste(image, ((longest - image.width) // 2, (longest - image.height) // 2))
        return self._resized(square, (self.tile, self.tile))

    def _resized(self, image: Image.Image, size: Size) -> Image.Image:
        return image.resize((size[1], size[0]), resample=self.colours.resample)
