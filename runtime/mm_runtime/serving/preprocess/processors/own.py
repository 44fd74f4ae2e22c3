"""Images that the checkpoint's own processor cuts, in another process: passed on as they are.

How many tokens an image becomes is known there alone; here it is the plan's estimate.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.processors.prepared import (
    Detail,
    InOneRun,
    InPrompt,
    Prepared,
    Size,
    WithoutOptions,
    WithoutVideo,
)


@dataclass(frozen=True)
class OwnProcessor(InOneRun, InPrompt, WithoutOptions, WithoutVideo):
    """Passes images on."""

    rows: int

    @classmethod
    def load(cls, engine: EngineDirectory) -> "OwnProcessor":
        """Take the estimate of the plan's facts."""
        vision = engine.facts.vision
        assert vision is not None  # noqa: S101  # the family has one
        return cls(vision.features_per_image)

    @property
    def fixed_rows(self) -> int:
        """Rows of every image, as they are estimated."""
        return self.rows

    def with_detail(self, detail: Detail, count: int) -> "OwnProcessor":
        """Return itself.

        Raises:
            RequestError: any detail but `auto`.
        """
        del count
        if detail != "auto":
            raise RequestError("expected `auto`: this model's own processor decides the detail")
        return self

    def rows_of(self, sizes: Sequence[Size]) -> tuple[int, ...]:
        """Return the estimate of each image."""
        return (self.rows,) * len(sizes)

    def reduced(self, image: Image.Image, count: int) -> Image.Image:
        """Return the image: its processor's resizing is its own."""
        del count
        return image

    def prepare(self, images: list[Image.Image]) -> Prepared:
        """Return `RAW_IMAGES` uint8 [images, height, width, 3], padded, and their sizes."""
        sizes = np.array([(one.height, one.width) for one in images], dtype=np.int64)
        height, width = sizes.max(axis=0)
        pixels = np.zeros((len(images), height, width, 3), dtype=np.uint8)
        for at, image in enumerate(images):
            pixels[at, : image.height, : image.width] = np.asarray(image)
        # The prompt's placeholders stay: the model's process replaces them.
        return Prepared({"RAW_IMAGES": pixels, "RAW_IMAGE_SIZES": sizes}, (0,) * len(images))
