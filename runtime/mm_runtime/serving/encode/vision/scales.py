"""Encoder of images at several scales: tiles by themselves, joined, then projected together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_api.documents.model_facts import VisionFacts
from mm_runtime.serving.encode.vision.features import Features
from mm_runtime.serving.encode.vision.refusals import refuse_cut_images, unlike_sizes
from mm_runtime.serving.encode.vision.session import VisionSession
from mm_runtime.serving.geometry import scales
from mm_runtime.serving.geometry.anyres import Size
from mm_runtime.serving.geometry.crops import nearest_grid
from mm_runtime.serving.tensors import Tensors, single

JOINED = "joined"
"""Input of the projector: what a tile has at every scale, [tiles, patches, scales x width]."""


@dataclass(frozen=True)
class ScaledImages:
    """The tiles of one request, and the grid of its one image; None: each tile is an image."""

    pixels: NDArray[np.floating[Any]]
    grid: Size | None


class ScaleEncoder:
    """Tower and projector of one checkpoint."""

    def __init__(
        self, session: VisionSession, vision: VisionFacts, projector: VisionSession
    ) -> None:
        """Connect the parts.

        `session`: `pixel_values` of tiles -> their states [tiles, patches, width]. What it keeps of
        earlier requests are those. `projector`: `JOINED` -> features [tiles, features of a tile,
        hidden].
        """
        assert vision.scales is not None  # noqa: S101  # or another encoder reads its tiles
        self._session, self._projector = session, projector
        self._tile = vision.image_size
        self._least, self._most = vision.min_tiles or 1, vision.max_tiles or 1
        self._squares = tuple(scale // vision.scales[0] for scale in vision.scales[:-1])

    def read(self, inputs: Tensors) -> ScaledImages | None:
        """Return tiles and grid.

        Raises:
            RequestError: images that the client cut itself, whose shapes are not known, or tiles
                that do not fit their sizes.
        """
        refuse_cut_images(inputs)
        pixels, sizes = single(inputs, "pixel_values"), single(inputs, "image_sizes")
        if pixels is None:
            return None
        pairs = [] if sizes is None or sizes.size % 2 else sizes.reshape(-1, 2).tolist()
        tiles, grid = len(pairs), None
        if tiles == 1 and min(pairs[0]) > 0:
            grid = nearest_grid(tuple(pairs[0]), self._tile, least=self._least, most=self._most)
            tiles = sum(split**2 for split in self._squares) + grid[0] * grid[1]
        if not tiles or pixels.shape != (tiles, 3, self._tile, self._tile):
            raise unlike_sizes(pixels, self._tile)
        return ScaledImages(pixels, grid)

    def encode(self, requests: Sequence[ScaledImages], salt: bytes = b"") -> list[Features]:
        """Return one prompt table a request.

        One after another: the states of a request's tiles are many times its features, and its
        tiles fill a run of the tower by themselves.
        """
        found = []
        for one in requests:
            states = np.asarray(self._session.run({"pixel_values": one.pixels}, salt))
            found.append(Features(table=self._projected(states, one.grid)))
        return found

    def _projected(self, states: NDArray[np.float32], grid: Size | None) -> NDArray[np.float32]:
        if grid is None:
            seen = scales.repeated(states, len(self._squares) + 1)
            features = np.asarray(self._projector.run({JOINED: seen}))
            return features.reshape(-1, features.shape[-1])
        seen = scales.joined(states, grid, self._squares)
        return scales.in_lines(np.asarray(self._projector.run({JOINED: seen})), grid)
