"""What every processor returns, and the arithmetic all of them share."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray
from PIL import Image

from mm_runtime.images.normalisation import CHANNELS, Normalisation, Values
from mm_runtime.serving.errors import RequestError

Size: TypeAlias = tuple[int, int]
"""Height and width in pixels."""

Detail: TypeAlias = Literal["auto", "low", "high"]
"""How closely a request wants an image seen, as OpenAI spells it; `auto`: as the family does."""

LOW_SIDE = 512
"""Pixels of a side of an image in low detail, as OpenAI defines it."""

KEPT_PIXELS = 2048 * 2048
"""An image of so many is never scaled down before its processor resizes it: it would be resized
twice, and the tower would see other pixels than those of transformers. 12 MiB an image at most."""


@dataclass(frozen=True)
class Prepared:
    """The images of one request, ready for the encoder."""

    tensors: dict[str, NDArray[Any]]
    """Outputs of the model `preprocessing`, without their batch dimension."""

    rows: tuple[int, ...]
    """Rows of the prompt table that each image or video becomes; none where cross attention reads
    it."""

    ids: tuple[int, ...] = ()
    """Identity of each image's or video's content, as KV reuse needs it."""


NO_VIDEO = RequestError("video_bytes_input: this model takes images, no video")


class ImageProcessor(Protocol):
    """One family's way from images to tensors.

    What has a body here is what most do: images become one run of features in the prompt, as many
    as their size makes, are cut up in one way, and are no videos. An image or a video of a shape
    that the family cannot read is a RequestError.
    """

    @property
    def fixed_rows(self) -> int | None:
        """Rows of every image; None where they follow from its size."""
        return None

    def with_detail(self, detail: Detail, count: int) -> "ImageProcessor":
        """Return the processor of an image that is seen in such detail; only `reduced` differs."""

    def rows_of(self, sizes: Sequence[Size]) -> tuple[int, ...]:
        """Return the rows that each image of one request becomes."""

    def cross_attention_rows(self, sizes: Sequence[Size]) -> int:
        """Return the features that cross attention reads beside the prompt; 0 in most families."""
        del sizes
        return 0

    def reduced(self, image: Image.Image, count: int) -> Image.Image:
        """Return an RGB image from which `prepare` makes the same, no larger than it needs."""

    def keeps(self, width: int, height: int) -> bool:
        """Return whether `reduced` surely returns an RGB image of that size itself."""
        del width, height
        return False

    def video_rows(self, frames: int, size: Size) -> int:
        del frames, size
        raise NO_VIDEO

    def reduced_frame(self, frame: Image.Image) -> Image.Image:
        """Return a frame of which `prepare_video` makes the same, no larger than it needs."""
        del frame
        raise NO_VIDEO

    def prepare(self, images: list[Image.Image]) -> Prepared:
        """Return the tensors of RGB images; of those that other servers encode there are none."""
        raise NotImplementedError

    def prepare_video(self, frames: list[Image.Image]) -> Prepared:
        del frames
        raise NO_VIDEO


def cut(canvas: Image.Image, tile: int) -> list[Image.Image]:
    """Return the square tiles of an image of entire tiles, from left to right and top down."""
    corners = [(x, y) for y in range(0, canvas.height, tile) for x in range(0, canvas.width, tile)]
    return [canvas.crop((x, y, x + tile, y + tile)) for x, y in corners]


def bounded(image: Image.Image, most_pixels: int) -> Image.Image:
    """Return the image, scaled down above `KEPT_PIXELS` and what all of its tiles could show."""
    return shrunk(image, max(most_pixels, KEPT_PIXELS))


def shrunk(image: Image.Image, most_pixels: int) -> Image.Image:
    """Return the image, scaled down when it has more pixels than these."""
    pixels = image.width * image.height
    if pixels <= most_pixels:
        return image
    scale = sqrt(most_pixels / pixels)
    size = (max(1, int(image.width * scale)), max(1, int(image.height * scale)))
    return image.resize(size, resample=Image.Resampling.BICUBIC)


@dataclass(frozen=True)
class Colours(Normalisation):
    """Per-channel constants of one checkpoint, and how it resizes."""

    resample: Image.Resampling

    @classmethod
    def of(
        cls, config: dict[str, Any], resample: Image.Resampling = Image.Resampling.BICUBIC
    ) -> "Colours":
        """Read them from an image processor's configuration; `resample`: where it names none.

        Raises:
            KeyError, ValueError: a key is missing or unknown.
        """
        read = Image.Resampling(config.get("resample", resample))
        return cls(**vars(Normalisation.of(config)), resample=read)

    def normalised(self, image: Image.Image, dtype: DTypeLike = np.float16) -> Values:
        """Return [3, height, width] of an RGB image, rounded to a type."""
        channels = [
            np.frombuffer(image.getchannel(at).tobytes(), np.uint8) for at in range(CHANNELS)
        ]
        return self.of_channels(channels, dtype).reshape(CHANNELS, image.height, image.width)
