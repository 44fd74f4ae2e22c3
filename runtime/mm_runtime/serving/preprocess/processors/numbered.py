"""Numbered tiles: an image scaled to one longer side, cut up, then all of it, each with its place.

The steps and their rounding are those of transformers' Idefics3 processor; tests compare both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from PIL import Image

from mm_api.families import FAMILIES
from mm_api.families.prompt import TileMarks
from mm_runtime.images.processor_config import read_config
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.processors.frame_sizes import video_config
from mm_runtime.serving.preprocess.processors.prepared import (
    NO_VIDEO,
    Colours,
    Detail,
    ImageProcessor,
    Prepared,
    Size,
    cut,
    shrunk,
)
from mm_runtime.serving.prompts.frames import Frame
from mm_runtime.serving.prompts.moments import are_written

LARGEST_SIDE = 4096
"""MAX_IMAGE_SIZE of transformers' video processor."""

_KEPT_FRAME = 2
"""A frame that `prepare_video` has to resize is scaled down first above so many times the pixels of
the square it is scaled into."""


@dataclass(frozen=True)
class NumberedProcessor(ImageProcessor):
    """Tiles, colours and tokens of one checkpoint."""

    colours: Colours
    tile: int
    longest: int
    """Pixels of the longer side of every image that is cut up, a multiple of the tile's."""

    rows: int
    """Features of one tile."""

    splits: bool
    """False: an image is its view and nothing else."""

    feature: str
    marks: TileMarks
    longest_of_frame: int | None = None
    """Pixels of the longer side that frames of videos are scaled to before they become a view;
    None: the family reads no video."""

    @classmethod
    def load(cls, engine: EngineDirectory) -> "NumberedProcessor":
        """Read the checkpoint's configuration."""
        vision, style = engine.facts.vision, FAMILIES[engine.facts.family].prompt
        if vision is None or vision.max_tiles is None or style is None or style.tiles is None:
            raise ValueError(f"{engine.root}: the facts have no number of tiles")
        config = read_config(engine.image_processor)
        return cls(
            colours=Colours.of(config, Image.Resampling.LANCZOS),
            tile=vision.image_size,
            longest=vision.longest_side or vision.image_size,
            rows=vision.features_per_image,
            splits=config.get("do_image_splitting", True) is not False,
            feature=style.placeholder,
            marks=style.tiles,
            longest_of_frame=_longest_of_frame(engine, config)
            if are_written(engine.facts)
            else None,
        )

    def with_detail(self, detail: Detail, count: int) -> "NumberedProcessor":
        """Return itself: all images are scaled to one size, and cut up or not.

        Raises:
            RequestError: another detail than that.
        """
        del count
        cut = self.splits and self.longest > self.tile
        if detail == ("low" if cut else "high"):
            raise RequestError(
                f"expected `auto` or `{'high' if cut else 'low'}`: this model sees each image "
                f"{f'scaled to {self.longest} pixels and cut up' if cut else 'as one view'}"
            )
        return self

    def rows_of(self, sizes: Sequence[Size]) -> tuple[int, ...]:
        """Return the features of all tiles and of the view."""
        grids = [self._grid(size) for size in sizes]
        return tuple(self.rows * (lines * columns + 1) for lines, columns in grids)

    def frames_of(self, sizes: Sequence[Size]) -> tuple[Frame, ...]:
        """Return the tiles of each image, the view behind them, with their places."""
        return tuple(self._frame(*self._grid(size)) for size in sizes)

    def reduced(self, image: Image.Image, count: int) -> Image.Image:
        """Return a larger image with its longer side at what all are scaled to."""
        del count  # each is cut up
        return image if max(image.size) <= self.longest else self._scaled(image)

    def video_rows(self, frames: int, size: Size) -> int:
        """Return the features of a view of each frame.

        Raises:
            RequestError: the family reads no video.
        """
        del size  # every frame is a view
        if self.longest_of_frame is None:
            raise NO_VIDEO
        return frames * self.rows

    def reduced_frame(self, frame: Image.Image) -> Image.Image:
        """Return the frame's view, or a frame that becomes it.

        Raises:
            RequestError: the family reads no video.
        """
        if self.longest_of_frame is None:
            raise NO_VIDEO
        if self.longest_of_frame == self.tile:  # a view stays as it is
            return self._view(frame, self.tile)
        return shrunk(frame, _KEPT_FRAME * self.longest_of_frame**2)

    def prepare_video(self, frames: list[Image.Image]) -> Prepared:
        """Return `PIXEL_VALUES` [frames, 3, side, side]; each frame has a place in the prompt.

        Raises:
            RequestError: the family reads no video.
        """
        if self.longest_of_frame is None:
            raise NO_VIDEO
        views = [self._view(frame, self.longest_of_frame) for frame in frames]
        pixels = np.stack([self.colours.normalised(view) for view in views])
        return Prepared({"PIXEL_VALUES": pixels}, (self.rows,) * len(frames))

    def _view(self, frame: Image.Image, longest: int) -> Image.Image:
        scaled = self._resized(frame, _fitted((frame.height, frame.width), longest))
        return self._resized(scaled, (self.tile, self.tile))

    def prepare(self, images: list[Image.Image]) -> Prepared:
        """Return `PIXEL_VALUES` [tiles, 3, side, side] of all images."""
        tiles = [tile for image in images for tile in self._tiles(image)]
        pixels = np.stack([self.colours.normalised(tile) for tile in tiles])
        sizes = [(image.height, image.width) for image in images]
        return Prepared({"PIXEL_VALUES": pixels}, self.rows_of(sizes), frames=self.frames_of(sizes))

    def _frame(self, lines: int, columns: int) -> Frame:
        marks = self.marks
        text = ""
        for row in range(1, lines + 1):
            places = (marks.place.format(row=row, column=one) for one in range(1, columns + 1))
            text += "".join(marks.edge + place + self.feature for place in places)
            text += marks.line_end
        text += marks.line_end if lines else ""
        text += marks.edge + marks.view + self.feature + marks.edge
        return Frame(text, (self.rows,) * (lines * columns + 1))

    def _tiles(self, image: Image.Image) -> list[Image.Image]:
        """Return the tiles from left to right and top to bottom, and the view."""
        canvas = self._scaled(image)
        side = (self.tile, self.tile)
        if not self.splits:
            return [self._resized(canvas, side)]
        high, wide = self._canvas((image.height, image.width))
        canvas = self._resized(canvas, (high, wide))
        if (high, wide) == side:
            return [canvas]
        return [*cut(canvas, self.tile), self._resized(canvas, side)]

    def _grid(self, size: Size) -> Size:
        """Return rows and columns of tiles, none where the view is all there is."""
        if not self.splits:
            return 0, 0
        high, wide = self._canvas(size)
        single = (high, wide) == (self.tile, self.tile)
        return (0, 0) if single else (high // self.tile, wide // self.tile)

    def _canvas(self, size: Size) -> Size:
        """Return height and width that tiles are cut from."""
        height, width = _fitted(size, self.longest)
        ratio = width / height
        if width >= height:
            height = int(self.longest / ratio)
        else:
            width = int(self.longest * ratio)
        high, wide = (max(1, ceil(side / self.tile)) * self.tile for side in (height, width))
        return high, wide

    def _scaled(self, image: Image.Image) -> Image.Image:
        return self._resized(image, _fitted((image.height, image.width), self.longest))

    def _resized(self, image: Image.Image, size: Size) -> Image.Image:
        return image.resize((size[1], size[0]), resample=self.colours.resample)


def _longest_of_frame(engine: EngineDirectory, images: dict[str, Any]) -> int:
    """Return the longest edge of frames, as the checkpoint's video processor reads its files.

    Raises:
        OSError, ValueError: a file is not readable, or no JSON object.
    """
    config = video_config(engine.image_processor) or images
    sampling = config.get("video_sampling") or {}
    size = sampling.get("video_size") or config.get("size") or {}
    tile = engine.facts.vision.image_size if engine.facts.vision else 0
    return min(int(size.get("longest_edge", 4 * tile)), LARGEST_SIDE)


def _fitted(size: Size, longest: int) -> Size:
    """Return height and width with the longer side at what all are scaled to."""
    height, width = size
    ratio = width / height
    if width >= height:
        return _even(int(longest / ratio)), longest
    return longest, _even(int(longest * ratio))


def _even(side: int) -> int:
    return max(1, side + side % 2)
