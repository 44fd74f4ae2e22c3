"""Encoder of HD images: tiles of all requests in one batch, then put together in lines."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_api.documents.model_facts import VisionFacts
from mm_runtime.serving.encode.vision.features import Features
from mm_runtime.serving.encode.vision.refusals import refuse_cut_images, unlike_sizes
from mm_runtime.serving.encode.vision.session import VisionSession
from mm_runtime.serving.geometry import hd
from mm_runtime.serving.geometry.anyres import Size
from mm_runtime.serving.tensors import Tensors, single


@dataclass(frozen=True)
class HdImages:
    """The tiles of one request, and the grid of each of its images."""

    pixels: NDArray[np.floating[Any]]
    grids: tuple[Size, ...]


class HdEncoder:
    """The tower of one checkpoint with the vectors between its features."""

    def __init__(
        self, session: VisionSession, vision: VisionFacts, ends: NDArray[np.float32]
    ) -> None:
        """Connect the parts.

        `ends`: [2, hidden], the end of a line and the separator before the view.
        """
        self._session = session
        self._tile, self._most = vision.image_size, (vision.max_tiles or 2) - 1
        self._end, self._separator = ends

    def read(self, inputs: Tensors) -> HdImages | None:
        """Return tiles and grids.

        Raises:
            RequestError: images that the client cut itself, whose shapes are not known, or tiles
                that do not fit their sizes.
        """
        refuse_cut_images(inputs)
        pixels, sizes = single(inputs, "pixel_values"), single(inputs, "image_sizes")
        if pixels is None:
            return None
        grids = []
        if sizes is not None and sizes.size % 2 == 0:
            pairs = ((int(high), int(wide)) for high, wide in sizes.reshape(-1, 2))
            grids = [hd.grid_of(one, self._tile, self._most) for one in pairs if min(one) > 0]
        known = tuple(grid for grid in grids if grid is not None)
        tiles = sum(rows * columns + 1 for rows, columns in known)
        if pixels.shape != (tiles, 3, self._tile, self._tile):
            raise unlike_sizes(pixels, self._tile)
        return HdImages(pixels, known)

    def encode(self, requests: Sequence[HdImages], salt: bytes = b"") -> list[Features]:
        """Return one prompt table a request."""
        pixels = np.concatenate([np.asarray(one.pixels, dtype=np.float32) for one in requests])
        features = self._session.run({"pixel_values": pixels}, salt)
        parts = np.split(features, np.cumsum([len(one.pixels) for one in requests])[:-1])
        return [
            Features(table=self._packed(part, one.grids))
            for part, one in zip(parts, requests, strict=True)
        ]

    def _packed(self, features: NDArray[np.float32], grids: Sequence[Size]) -> NDArray[np.float32]:
        ends = np.cumsum([rows * columns + 1 for rows, columns in grids])[:-1]
        return np.concatenate(
            [
                hd.pack_image(part, grid, self._end, self._separator)
                for part, grid in zip(np.split(features, ends), grids, strict=True)
            ]
        )
