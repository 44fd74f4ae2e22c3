"""Image parts of a request -> pixels for the engine: fetch, decode, make square."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mm_runtime.gateway.data_urls import decode_data_url
from mm_runtime.gateway.errors import InvalidRequestError
from mm_runtime.gateway.fetch import FetchRefusedError, ImageFetcher
from mm_runtime.gateway.media import BadImageError, ImageGeometry, decode, to_square


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
        geometry: ImageGeometry,
        executor: Executor,
    ) -> None:
        self._fetcher = fetcher
        self._limits = limits
        self._geometry = geometry
        # Bounded on purpose: a decoded picture of the largest size takes hundreds of MB.
        self._executor = executor

    async def load(self, references: Sequence[ImageReference]) -> NDArray[np.uint8] | None:
        """Return uint8[n, side, side, 3] in the order of the references, or None without any.

        Raises:
            InvalidRequestError: an image is refused; `param` names the first such part.
        """
        if not references:
            return None
        # All are awaited before the first error is raised: which one is named does not depend on
        # which host answers first.
        squares = await asyncio.gather(*map(self._load, references), return_exceptions=True)
        return np.stack([_result(square) for square in squares])

    async def _load(self, reference: ImageReference) -> NDArray[np.uint8]:
        loop = asyncio.get_running_loop()
        try:
            if reference.url[:5].lower() == "data:":
                return await loop.run_in_executor(self._executor, self._from_data, reference.url)
            encoded = await self._fetcher.fetch(reference.url)
            return await loop.run_in_executor(self._executor, self._from_bytes, encoded)
        except FetchRefusedError as error:
            raise InvalidRequestError(
                f"`{reference.param}`: {error}.", param=reference.param, code="invalid_image_url"
            ) from error
        except BadImageError as error:
            raise InvalidRequestError(
                f"`{reference.param}`: {error}.", param=reference.param, code="invalid_image"
            ) from error

    def _from_data(self, url: str) -> NDArray[np.uint8]:
        return self._from_bytes(decode_data_url(url, max_bytes=self._limits.max_bytes))

    def _from_bytes(self, encoded: bytes) -> NDArray[np.uint8]:
        return to_square(decode(encoded, max_pixels=self._limits.max_pixels), self._geometry)


def _result(square: NDArray[np.uint8] | BaseException) -> NDArray[np.uint8]:
    if isinstance(square, BaseException):
        raise square
    return square
