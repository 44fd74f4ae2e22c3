"""Image and video parts of a request -> pixels for the engine: fetch, decode, make small."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mm_runtime.engine.errors import RequestError
from mm_runtime.gateway.body import BodyBudget
from mm_runtime.gateway.errors import InvalidRequestError
from mm_runtime.gateway.known_pictures import KnownPictures
from mm_runtime.gateway.video import VideoLimits, decode_video, read_video
from mm_runtime.pictures.data_urls import decode_data_url
from mm_runtime.pictures.fetch import FetchRefusedError, ImageFetcher
from mm_runtime.pictures.media import BadImageError, decode

Reduce = Callable[[Image.Image, int], Image.Image]
"""A picture and the number of pictures of its request -> the picture as the engine needs it."""

Pixels = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class ImageReference:
    """One image of a request: its URL and the part that holds it, for messages."""

    url: str
    param: str


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """Limits of one image."""

    max_bytes: int
    max_pixels: int


class ImageLoader:
    """Loads the images of requests."""

    def __init__(
        self,
        *,
        fetcher: ImageFetcher,
        limits: ImageLimits,
        reduce: Reduce,
        reduce_frame: Callable[[Image.Image], Image.Image],
        executor: Executor,
        known: KnownPictures,
        bodies: BodyBudget,
    ) -> None:
        self._fetcher = fetcher
        self._limits = limits
        self._reduce = reduce
        self._reduce_frame = reduce_frame
        # Bounded on purpose: a decoded picture of the largest size takes hundreds of MB.
        self._executor = executor
        self._known = known
        # What is fetched waits for a decoder like what arrives in a body, and counts with it.
        self._bodies = bodies

    async def load(
        self, references: Sequence[ImageReference], salt: str = ""
    ) -> tuple[Pixels, ...]:
        """Return uint8[height, width, 3] of each reference, in their order.

        Args:
            references: all pictures of a request.
            salt: decoded pictures are shared with requests of the same one only.

        Raises:
            InvalidRequestError: an image is refused; `param` names the first such part.
        """
        # All are awaited before the first error is raised: which one is named does not depend on
        # which host answers first.
        count = len(references)
        loading = [self._load(reference, count, salt) for reference in references]
        pictures = await asyncio.gather(*loading, return_exceptions=True)
        return tuple(_result(picture) for picture in pictures)

    async def load_video(self, reference: ImageReference, *, most_frames: int) -> Pixels:
        """Return uint8[frames, height, width, 3]; a longer video is sampled evenly.

        Raises:
            InvalidRequestError: the video is refused.
        """

        def decoded(url: str, encoded: bytes | None) -> Pixels:
            limits = VideoLimits(self._limits.max_bytes, self._limits.max_pixels, most_frames)
            keep = self._reduce_frame
            if encoded is None:
                frames = read_video(url, limits, keep)
            else:
                frames = decode_video(encoded, limits, keep)
            return np.stack([np.asarray(frame) for frame in frames])

        return await self._read(reference, decoded, code="invalid_video")

    async def _load(self, reference: ImageReference, count: int, salt: str) -> Pixels:
        def decoded(url: str, encoded: bytes | None) -> Pixels:
            if encoded is None:
                encoded = decode_data_url(url, max_bytes=self._limits.max_bytes)
            return self._known.through(encoded, count, partial(reduced, encoded), salt)

        def reduced(content: bytes) -> Pixels:
            picture = decode(content, max_pixels=self._limits.max_pixels)
            return np.array(self._reduce(picture, count))

        return await self._read(reference, decoded, code="invalid_image")

    async def _read(
        self,
        reference: ImageReference,
        decoded: Callable[[str, bytes | None], Pixels],
        *,
        code: str,
    ) -> Pixels:
        """Fetch, and decode in the executor; a `data:` URL holds its bytes itself."""
        url, param = reference.url, reference.param
        loop = asyncio.get_running_loop()
        try:
            with self._bodies.claim() as claim:
                encoded = None
                if url[:5].lower() != "data:":
                    encoded = await self._fetcher.fetch(url, claim.grow)
                return await loop.run_in_executor(self._executor, decoded, url, encoded)
        except FetchRefusedError as error:
            raise InvalidRequestError(
                f"`{param}`: {error}.", param=param, code=f"{code}_url"
            ) from error
        except (BadImageError, RequestError) as error:
            raise InvalidRequestError(f"`{param}`: {error}.", param=param, code=code) from error


def _result(picture: Pixels | BaseException) -> Pixels:
    if isinstance(picture, BaseException):
        raise picture
    return picture
