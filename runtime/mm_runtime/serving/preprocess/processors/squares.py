"""Families whose tower sees one square an image: LLaVA, VILA, BLIP-2."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from mm_runtime.images.normalisation import Bytes
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.processors.prepared import (
    Detail,
    ImageProcessor,
    Prepared,
    Size,
)
from mm_runtime.serving.preprocess.processors.resize import ImagePreprocessor
from mm_runtime.serving.tensor_names import BYTES_PREPARED

PIXEL_VALUES = "PIXEL_VALUES"


@dataclass(frozen=True)
class SquareProcessor(ImageProcessor):
    """Resizes and cuts as the checkpoint says; every image has the same number of rows."""

    preprocessor: ImagePreprocessor
    rows: int

    @classmethod
    def load(cls, engine: EngineDirectory) -> "SquareProcessor":
        rows = engine.vision.features_per_image if engine.vision else 0
        return cls(ImagePreprocessor.from_folder(engine.image_processor), rows)

    @property
    def fixed_rows(self) -> int:
        return self.rows

    def with_detail(self, detail: Detail, count: int) -> "SquareProcessor":
        del count
        if detail == "high":
            raise RequestError(
                "expected `auto` or `low`: this model sees each image as one square of "
                f"{self.preprocessor.crop} x {self.preprocessor.crop} pixels"
            )
        return self

    def rows_of(self, sizes: Sequence[Size]) -> tuple[int, ...]:
        return (self.rows,) * len(sizes)

    def reduced(self, image: Image.Image, count: int) -> Image.Image:
        del count  # one square each
        return self.preprocessor.square(image)

    def keeps(self, width: int, height: int) -> bool:
        return self.preprocessor.keeps(width, height)

    def prepare(self, images: list[Image.Image]) -> Prepared:
        """Return `PIXEL_VALUES` [images, 3, side, side]."""
        pixels = self.preprocessor(images, np.float16)
        return Prepared({PIXEL_VALUES: pixels}, (self.rows,) * len(images))

    def prepare_bytes(self, images: Sequence[Image.Image | Bytes]) -> Prepared:
        """Return `PIXEL_BYTES` [images, side, side, 3], which the encoder normalises."""
        squares = [self.preprocessor.bytes_of(image) for image in images]
        pixels = squares[0][np.newaxis] if len(squares) == 1 else np.stack(squares)
        return Prepared({BYTES_PREPARED: pixels}, (self.rows,) * len(images))
