"""Image parts of a request -> pixels for the engine: fetch, decode, make as small as it needs."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mm_runtime.engine.errors import RequestError
from mm_runtime.gateway.data_urls import decode_data_url
from mm_runtime.gateway.errors import InvalidRequestError
from mm_runtime.gateway.fetch import FetchRefusedError, ImageFetcher
from mm_runtime.gateway.media import BadImageError, decode

Reduce = Callable[[Image.Image, int], Image.Image]
"""A picture and the number of pictures of its request -> the picture as the engine needs it."""


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
        executor: Executor,
    ) -> None:
        self._fetcher = fetcher
        self._limits = limits
        self._reduce = reduce
        # Bounded on purpose: a decoded picture of the largest size takes hundreds of MB.
        self._executor = executor

    async def load(self, references: Sequence[ImageReference]) -> tuple[NDArray[np.uint8], ...]:
        """Return uint8[height, width, 3] of each reference, in their order.

        Raises:
            InvalidRequestError: an image is refused; `param` names the first such part.
        """
        # All are awaited before the first error is raised: which one is named does not depend on
        # which host answers first.
        count = len(references)
        loading = [self._load(reference, count) for reference in references]
        pictures = await asyncio.gather(*loading, return_exceptions=True)
        return tuple(_result(picture) for picture in pictures)

    async def _load(self, reference: ImageReference, count: int) -> NDArray[np.uint8]:
        loop = asyncio.get_running_loop()
        try:
            if reference.url[:5].lower() == "data:":
                return await loop.run_in_executor(
                    self._executor, self._from_data, reference.url, count
                )
            encoded = await self._fetcher.fetch(reference.url)
            return await loop.run_in_executor(self._executor, self._from_bytes, encoded, count)
        except FetchRefusedError as error:
            raise InvalidRequestError(
                f"`{reference.param}`: {error}.", param=reference.param, code="invalid_image_url"
            ) from error
        except (BadImageError, RequestError) as error:
            raise InvalidRequestError(
                f"`{reference.param}`: {error}.", param=reference.param, code="invalid_image"
            ) from error

    def _from_data(self, url: str, count: int) -> NDArray[np.uint8]:
        return self._from_bytes(decode_data_url(url, max_bytes=self._limits.max_bytes), count)

    def _from_bytes(self, encoded: bytes, count: int) -> NDArray[np.uint8]:
        picture = decode(encoded, max_pixels=self._limits.max_pixels)
        return np.asarray(self._reduce(picture, count))


def _result(picture: NDArray[np.uint8] | BaseException) -> NDArray[np.uint8]:
    if isinstance(picture, BaseException):
        raise picture
    return picture
