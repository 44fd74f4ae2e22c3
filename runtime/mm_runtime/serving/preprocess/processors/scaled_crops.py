"""The one image of a request at several scales; several images are a tile each.

The steps are those of `dynamic_s2_preprocess` of NVlabs/VILA (mm_utils.py at 33b4f1a5); tests have
a port of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.geometry.anyres import Size
from mm_runtime.serving.preprocess.processors.ended_crops import EndedCropProcessor
from mm_runtime.serving.preprocess.processors.prepared import Prepared
from mm_runtime.serving.prompts.frames import Frame


@dataclass(frozen=True)
class ScaledCropProcessor(EndedCropProcessor):
    """Squares of tiles, and the grid of the nearest shape; in the prompt an image is one run."""

    squares: tuple[int, ...] = ()
    """Tiles along a side of each scale before the last."""

    @classmethod
    def load(cls, engine: EngineDirectory) -> "ScaledCropProcessor":
        """Read the checkpoint's configuration."""
        vision, ended = engine.facts.vision, super().load(engine)
        assert isinstance(ended, cls)  # noqa: S101  # `cls` made it
        if vision is None or vision.scales is None or vision.max_tiles is None:
            raise ValueError(f"{engine.root}: the facts have no scales")
        squares = tuple(scale // vision.scales[0] for scale in vision.scales[:-1])
        return replace(ended, most=vision.max_tiles, squares=squares)

    def rows_of(self, sizes: Sequence[Size]) -> tuple[int, ...]:
        """Return the features of one image's grid, or of a tile of each."""
        if len(sizes) > 1:
            return (self.rows,) * len(sizes)
        grids = [self._grid(size) for size in sizes]
        return tuple(self.rows * rows * columns for rows, columns in grids)

    def frames_of(self, sizes: Sequence[Size]) -> tuple[Frame, ...]:
        """Return one run an image."""
        return tuple(Frame(self.feature, (rows,)) for rows in self.rows_of(sizes))

    def prepare(self, images: list[Image.Image]) -> Prepared:
        """Return `PIXEL_VALUES` [tiles, 3, side, side] and `IMAGE_SIZES`, height and width each."""
        sizes = [(image.height, image.width) for image in images]
        tiles = [self._squared(image) for image in images]
        if len(images) == 1:
            tiles = [tile for grid in self._grids(sizes[0]) for tile in self._cut(images[0], grid)]
        tensors = {
            "PIXEL_VALUES": np.stack([self.colours.normalised(tile) for tile in tiles]),
            "IMAGE_SIZES": np.array(sizes, dtype=np.int64).reshape(-1),
        }
        return Prepared(tensors, self.rows_of(sizes), frames=self.frames_of(sizes))

    def _grids(self, size: Size) -> list[Size]:
        return [*((split, split) for split in self.squares), self._grid(size)]
