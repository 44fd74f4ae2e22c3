"""Numbered tiles: what an image becomes that is scaled to one longer side, cut up, then seen once.

Servers of others cut it. The rounding is that of transformers' Idefics3 processor; tests compare.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from PIL import Image

from mm_api.families import FAMILIES
from mm_api.families.prompt import TileMarks
from mm_runtime.images.processor_config import read_config
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.processors.prepared import (
    Detail,
    ImageProcessor,
    Size,
    resampling,
)
from mm_runtime.serving.prompts.frames import Frame


@dataclass(frozen=True)
class NumberedProcessor(ImageProcessor):
    """Tiles and tokens of one checkpoint."""

    resample: Image.Resampling
    tile: int
    longest: int
    """Pixels of the longer side of every image that is cut up, a multiple of the tile's."""

    rows: int
    """Features of one tile."""

    splits: bool
    """False: an image is its view and nothing else."""

    feature: str
    marks: TileMarks

    @classmethod
    def load(cls, engine: EngineDirectory) -> "NumberedProcessor":
        """Read the checkpoint's configuration."""
        vision, style = engine.facts.vision, FAMILIES[engine.facts.family].prompt
        if vision is None or vision.max_tiles is None or style is None or style.tiles is None:
            raise ValueError(f"{engine.root}: the facts have no number of tiles")
        config = read_config(engine.image_processor)
        return cls(
            resample=resampling(config, Image.Resampling.LANCZOS),
            tile=vision.image_size,
            longest=vision.longest_side or vision.image_size,
            rows=vision.features_per_image,
            splits=config.get("do_image_splitting", True) is not False,
            feature=style.placeholder,
            marks=style.tiles,
        )

    def with_detail(self, detail: Detail, count: int) -> "NumberedProcessor":
        """Return itself: all images are scaled to one size, and cut up or not."""
        del count
        cut = self.splits and self.longest > self.tile
        if detail == ("low" if cut else "high"):
            raise RequestError(
                f"expected `auto` or `{'high' if cut else 'low'}`: this model sees each image "
                f"{f'scaled to {self.longest} pixels and cut up' if cut else 'as one view'}"
            )
        return self

    def rows_of(self, sizes: Sequence[Size]) -> tuple[int, ...]:
        grids = [self._grid(size) for size in sizes]
        return tuple(self.rows * (lines * columns + 1) for lines, columns in grids)

    def frames_of(self, sizes: Sequence[Size]) -> tuple[Frame, ...]:
        return tuple(self._frame(*self._grid(size)) for size in sizes)

    def reduced(self, image: Image.Image, count: int) -> Image.Image:
        """Return a larger image with its longer side at what all are scaled to."""
        del count  # each is cut up
        if max(image.size) <= self.longest:
            return image
        height, width = _fitted((image.height, image.width), self.longest)
        return image.resize((width, height), resample=self.resample)

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


def _fitted(size: Size, longest: int) -> Size:
    """Return height and width with the longer side at what all are scaled to."""
    height, width = size
    ratio = width / height
    if width >= height:
        return _even(int(longest / ratio)), longest
    return longest, _even(int(longest * ratio))


def _even(side: int) -> int:
    return max(1, side + side % 2)
