"""Images that the checkpoint's own processor cuts, in another process: passed on as they are.

How many tokens an image becomes is said by its family's record, or else is the plan's estimate.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from mm_api.documents.model_facts import VisionFacts
from mm_api.families import FAMILIES
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.processors.prepared import (
    Detail,
    ImageProcessor,
    Prepared,
    Size,
)


@dataclass(frozen=True)
class OwnProcessor(ImageProcessor):
    """Passes images on."""

    family: str
    vision: VisionFacts

    @classmethod
    def load(cls, engine: EngineDirectory) -> "OwnProcessor":
        vision = engine.facts.vision
        assert vision is not None  # noqa: S101  # the family has one
        return cls(engine.facts.family, vision)

    @property
    def fixed_rows(self) -> int | None:
        """Rows of every image, as they are estimated; None: the family's record counts them."""
        counted = FAMILIES[self.family].layout.rows_of_image is not None
        return None if counted else self.vision.features_per_image

    def with_detail(self, detail: Detail, count: int) -> "OwnProcessor":
        del count
        if detail != "auto":
            raise RequestError("expected `auto`: this model's own processor decides the detail")
        return self

    def rows_of(self, sizes: Sequence[Size]) -> tuple[int, ...]:
        """Return what the family's record counts, or the plan's estimate of every image."""
        count = FAMILIES[self.family].layout.rows_of_image
        if count is None:
            return (self.vision.features_per_image,) * len(sizes)
        rows = tuple(count(self.vision, height, width) for height, width in sizes)
        for (height, width), tokens in zip(sizes, rows, strict=True):
            if not tokens:
                raise RequestError(
                    f"the image has {width} x {height} pixels: once its longer side fits, nothing "
                    "is left of the other one; cut it"
                )
        return rows

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
