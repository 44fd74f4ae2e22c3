"""Tiles that trtllm-serve cuts and encodes, each with a newline behind it: here they are counted.

Images reach the server as they are, but for pixels that no tile could show.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image

from mm_api.documents.model_facts import VisionFacts
from mm_api.families.image_layouts.ended import largest_grid, tokens_of_grid
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.geometry.crops import nearest_grid
from mm_runtime.serving.preprocess.processors.prepared import (
    Detail,
    ImageProcessor,
    Size,
    bounded,
)


@dataclass(frozen=True)
class EndedProcessor(ImageProcessor):
    """Tiles of one checkpoint."""

    vision: VisionFacts

    @classmethod
    def load(cls, engine: EngineDirectory) -> "EndedProcessor":
        """Take the plan's facts."""
        vision = engine.facts.vision
        if vision is None or vision.max_tiles is None:
            raise ValueError(f"{engine.root}: the facts have no number of tiles")
        return cls(vision)

    def with_detail(self, detail: Detail, count: int) -> "EndedProcessor":
        del count
        if detail != "auto":
            raise RequestError("expected `auto`: trtllm-serve decides the tiles of this model")
        return self

    def rows_of(self, sizes: Sequence[Size]) -> tuple[int, ...]:
        return tuple(tokens_of_grid(self.vision, self._tiles(size)).count for size in sizes)

    def reduced(self, image: Image.Image, count: int) -> Image.Image:
        del count  # each is cut up
        return bounded(image, self.vision.image_size**2 * largest_grid(self.vision))

    def _tiles(self, size: Size) -> int:
        rows, columns = nearest_grid(
            size,
            self.vision.image_size,
            least=self.vision.min_tiles or 1,
            most=largest_grid(self.vision),
        )
        return rows * columns
