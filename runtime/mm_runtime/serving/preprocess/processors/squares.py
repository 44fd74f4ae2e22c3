"""Families whose tower sees one square an image: LLaVA, VILA, BLIP-2.

CLIP: resize the shorter side, cut out the centre, scale to 0..1, normalise by channel. SigLIP and
BLIP: squeeze the image into the square. The steps and their rounding follow transformers; tests
compare both on odd sizes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from PIL import Image

from mm_runtime.images.normalisation import Bytes, Values
from mm_runtime.images.processor_config import read_config
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.processors.prepared import (
    Colours,
    Detail,
    ImageProcessor,
    Prepared,
    Size,
)
from mm_runtime.serving.tensor_names import BYTES_PREPARED

PIXEL_VALUES = "PIXEL_VALUES"

_LONGEST_RATIO = 16
"""Beyond this aspect ratio an image is cropped before it is resized: a 1 x 1,000,000 strip would
become 336 x 336,000,000 on its way to the crop."""


@dataclass(frozen=True)
class SquareProcessor(ImageProcessor):
    """Sizes in pixels and colours of one checkpoint; every image has the same number of rows."""

    shortest_edge: int
    crop: int
    colours: Colours
    squeezes: bool = False
    """Both sides become the square's; nothing is cut."""
    rows: int = 0

    @classmethod
    def load(cls, engine: EngineDirectory) -> "SquareProcessor":
        rows = engine.vision.features_per_image if engine.vision else 0
        return cls.from_folder(engine.image_processor, rows)

    @classmethod
    def from_folder(cls, folder: Path, rows: int = 0) -> "SquareProcessor":
        """Read `preprocessor_config.json`, or the image part of `processor_config.json`.

        Raises:
            OSError: neither file is there.
            KeyError, ValueError: a key is missing, or this is no square CLIP preprocessing.
        """
        config = read_config(folder)
        squeezes = not config.get("crop_size") or config.get("do_center_crop") is False
        crop = _side(config["size" if squeezes else "crop_size"])
        return cls(
            shortest_edge=_side(config["size"]),
            crop=crop,
            squeezes=squeezes,
            colours=Colours.of(config),
            rows=rows,
        )

    @property
    def fixed_rows(self) -> int:
        return self.rows

    def with_detail(self, detail: Detail, count: int) -> "SquareProcessor":
        del count
        if detail == "high":
            raise RequestError(
                "expected `auto` or `low`: this model sees each image as one square of "
                f"{self.crop} x {self.crop} pixels"
            )
        return self

    def rows_of(self, sizes: Sequence[Size]) -> tuple[int, ...]:
        return (self.rows,) * len(sizes)

    def prepare(self, images: list[Image.Image]) -> Prepared:
        pixels = self.values_of(images, np.float16)
        return Prepared({PIXEL_VALUES: pixels}, (self.rows,) * len(images))

    def prepare_bytes(self, images: Sequence[Image.Image | Bytes]) -> Prepared:
        """Return `PIXEL_BYTES` [images, side, side, 3], which the encoder normalises."""
        squares = [self.bytes_of(image) for image in images]
        pixels = squares[0][np.newaxis] if len(squares) == 1 else np.stack(squares)
        return Prepared({BYTES_PREPARED: pixels}, (self.rows,) * len(images))

    def values_of(self, images: list[Image.Image], dtype: DTypeLike = np.float32) -> Values:
        """Return [images, 3, crop, crop], rounded to a type."""
        made = [self.colours.normalised(self.resize_and_crop(image), dtype) for image in images]
        return made[0][np.newaxis] if len(made) == 1 else np.stack(made)

    def bytes_of(self, image: Image.Image | Bytes) -> Bytes:
        """Return [crop, crop, 3] of an image or of RGB bytes: what `values_of` normalises.

        Bytes of the crop's size stay where they are: a copy to Pillow and back takes a quarter of a
        millisecond of an image of 336 x 336 pixels.
        """
        if isinstance(image, np.ndarray):
            if self.keeps(*image.shape[:2]):
                return image
            image = Image.fromarray(image)
        return np.asarray(self.resize_and_crop(image))

    def keeps(self, width: int, height: int) -> bool:
        """Return whether an RGB image of that size is the square itself."""
        side = self.crop
        return width == height == side and (self.squeezes or self.shortest_edge == side)

    def reduced(self, image: Image.Image, count: int = 1) -> Image.Image:
        """Return the smallest square image of which `resize_and_crop` makes the same.

        Byte for byte for images up to `_LONGEST_RATIO`.
        """
        del count  # one square each
        if self.squeezes:
            return self.resize_and_crop(image)
        side = self.shortest_edge
        if image.mode == "RGB" and image.size == (side, side):
            return image  # three copies fewer: 0.6 ms of an image of 336 x 336 pixels
        image = _trim(_rgb(image))
        width, height = image.size
        short = min(width, height)
        # The same integers as transformers: the longer side is truncated, the crop starts at a
        # floor.
        resized = (side * width // short, side * height // short)
        left, top = (resized[0] - side) // 2, (resized[1] - side) // 2
        return image.resize(resized, self.colours.resample).crop(
            (left, top, left + side, top + side)
        )

    def resize_and_crop(self, image: Image.Image) -> Image.Image:
        """Return the centre square of `crop` pixels that the vision tower sees.

        The gateway sends images that are one already: nothing of them is copied.
        """
        if image.mode == "RGB" and self.keeps(*image.size):
            return image
        image = _rgb(image)
        if self.squeezes:
            return image.resize((self.crop, self.crop), resample=self.colours.resample)
        image = _trim(image)
        short, long = sorted(image.size)
        longer = int(self.shortest_edge * long / short)
        portrait = image.width <= image.height
        size = (self.shortest_edge, longer) if portrait else (longer, self.shortest_edge)
        image = image.resize(size, resample=self.colours.resample)
        # Offsets as transformers rounds them; an area outside the image is filled with black.
        top = (image.height - self.crop) // 2
        left = (image.width - self.crop) // 2
        return image.crop((left, top, left + self.crop, top + self.crop))


def _rgb(image: Image.Image) -> Image.Image:
    return image if image.mode == "RGB" else image.convert("RGB")


def _trim(image: Image.Image) -> Image.Image:
    """Cut the ends off a strip; what is left still holds everything the centre crop sees."""
    width, height = image.size
    longest = min(width, height) * _LONGEST_RATIO
    if max(width, height) <= longest:
        return image
    cut_x, cut_y = max(0, width - longest) // 2, max(0, height - longest) // 2
    return image.crop((cut_x, cut_y, width - cut_x, height - cut_y))


def _side(size: Any) -> int:
    """Return the side of a size entry: a number, a shortest edge, or a square of both."""
    if isinstance(size, int):
        return size
    if "shortest_edge" in size:
        return int(size["shortest_edge"])
    if size["height"] != size["width"]:
        raise ValueError(f"image size {size} is not square; CLIP towers take square images")
    return int(size["height"])
