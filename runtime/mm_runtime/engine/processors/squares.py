"""Families whose tower sees one square a picture: LLaVA, VILA, BLIP-2."""

from dataclasses import dataclass

import numpy as np
from PIL import Image

from mm_runtime.engine.directory import EngineDirectory
from mm_runtime.engine.errors import RequestError
from mm_runtime.engine.preprocess import ImagePreprocessor
from mm_runtime.engine.processors.prepared import Prepared


@dataclass(frozen=True)
class SquareProcessor:
    """Resizes and cuts as the checkpoint says; every picture has the same number of rows."""

    images: ImagePreprocessor
    rows: int

    @classmethod
    def load(cls, engine: EngineDirectory, rows: int) -> "SquareProcessor":
        """Read the checkpoint's configuration."""
        return cls(ImagePreprocessor.from_folder(engine.processor), rows)

    def prepare(self, pictures: list[Image.Image]) -> Prepared:
        """Return `PIXEL_VALUES` [pictures, 3, side, side]."""
        pixels = self.images(pictures).astype(np.float16)
        return Prepared({"PIXEL_VALUES": pixels}, (self.rows,) * len(pictures))

    def prepare_video(self, frames: list[Image.Image]) -> Prepared:
        """Refuse: these families know pictures only."""
        del frames
        raise RequestError("video_bytes_input: this model takes pictures, no video")
