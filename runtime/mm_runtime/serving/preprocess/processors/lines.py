"""Lines: an image keeps its shape, in multiples of what becomes a feature; tokens end its lines.

Servers of others cut it. The rounding is that of transformers' Pixtral processor; tests compare.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, floor

from PIL import Image

from mm_api.families import FAMILIES
from mm_runtime.images.processor_config import read_config
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.processors.prepared import (
    LOW_SIDE,
    Detail,
    ImageProcessor,
    Size,
    resampling,
)
from mm_runtime.serving.prompts.frames import Frame


@dataclass(frozen=True)
class LineProcessor(ImageProcessor):
    """Sizes and tokens of one checkpoint."""

    resample: Image.Resampling
    patch: int
    merge: int
    longest: int
    """Pixels of a side at the most."""

    feature: str
    line_end: str
    image_end: str
    """Tokens: of a feature, of the end of a line, of the end of an image after its last line."""

    shown: int | None = None
    """Pixels of a side that an image is reduced to at the most; None: `longest`."""

    @classmethod
    def load(cls, engine: EngineDirectory) -> "LineProcessor":
        """Read the checkpoint's configuration."""
        vision, style = engine.facts.vision, FAMILIES[engine.facts.family].prompt
        if vision is None or style is None:
            raise ValueError(f"{engine.root}: the facts have no vision part")
        return cls(
            resample=resampling(read_config(engine.image_processor), Image.Resampling.BICUBIC),
            patch=vision.patch_size,
            merge=vision.merge_size or 1,
            longest=vision.image_size,
            feature=style.placeholder,
            line_end=style.line_end,
            image_end=style.image_end,
        )

    def with_detail(self, detail: Detail, count: int) -> "LineProcessor":
        """Return the processor of sides of `LOW_SIDE` for low detail, in multiples of a feature."""
        del count
        unit = self.patch * self.merge
        low = LOW_SIDE // unit * unit
        return replace(self, shown=low) if detail == "low" and low < self.longest else self

    def rows_of(self, sizes: Sequence[Size]) -> tuple[int, ...]:
        """Return the features of each image."""
        grids = [self._grid(size, self.longest) for size in sizes]
        return tuple(lines * columns for lines, columns in grids)

    def frames_of(self, sizes: Sequence[Size]) -> tuple[Frame, ...]:
        """Return the lines of each image with the tokens that end them."""
        frames = []
        for size in sizes:
            lines, columns = self._grid(size, self.longest)
            text = self.line_end.join([self.feature] * lines) + self.image_end
            frames.append(Frame(text, (columns,) * lines))
        return tuple(frames)

    def reduced(self, image: Image.Image, count: int) -> Image.Image:
        """Return the image in the size its patches are cut from."""
        del count  # each is cut by itself
        longest = self.longest if self.shown is None else self.shown
        lines, columns = self._grid((image.height, image.width), longest)
        unit = self.patch * self.merge
        return image.resize((columns * unit, lines * unit), resample=self.resample)

    def _grid(self, size: Size, longest: int) -> Size:
        """Return lines and columns of features of an image of height and width in pixels.

        Raises:
            RequestError: a strip that is nothing once its longer side fits.
        """
        shrink = max(1.0, max(size) / longest)
        height, width = (floor(side / shrink) if shrink > 1 else side for side in size)
        if not height or not width:
            raise RequestError(
                f"the image has {size[1]} x {size[0]} pixels: with its longer side at "
                f"{longest} pixels nothing is left of the other one; cut it"
            )
        unit = self.patch * self.merge
        return ceil(height / unit), ceil(width / unit)
