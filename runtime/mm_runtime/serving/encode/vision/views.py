"""Encoder of views: tiles of all requests in one batch, then put together by image."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_api.documents.model_facts import VisionFacts
from mm_runtime.serving.encode.vision.features import Features, refuse_cut_images
from mm_runtime.serving.encode.vision.session import VisionSession
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.geometry import anyres
from mm_runtime.serving.tensors import Tensors, scalar, single


@dataclass(frozen=True)
class Views:
    """The tiles of one request and the sizes of its images."""

    pixels: NDArray[np.floating[Any]]
    sizes: tuple[anyres.Size, ...]
    is_video: bool


def kept_newline(extras: Path) -> NDArray[np.float32]:
    """Return the newline vector [hidden] that the build has put beside the graph."""
    with np.load(extras, allow_pickle=False) as stored:
        newline: NDArray[np.float32] = stored["image_newline"]
    return newline


class ViewEncoder:
    """The tower of one checkpoint with its newline vector."""

    def __init__(
        self,
        session: VisionSession,
        vision: VisionFacts,
        newline: NDArray[np.float32],
        *,
        single_views: bool,
    ) -> None:
        """Take a session.

        `newline`: [hidden], the end of each row of patches. `single_views`: each of several images
        is one view.
        """
        self._session = session
        self._grids = vision.grid_pinpoints or []
        self._tile, self._limit = vision.image_size, vision.grid_limit
        self._newline = newline
        self._single_views = single_views

    def read(self, inputs: Tensors) -> Views | None:
        """Return tiles and sizes."""
        refuse_cut_images(inputs)
        pixels, sizes = single(inputs, "pixel_values"), single(inputs, "image_sizes")
        if pixels is None:
            return None
        if pixels.shape[1:] != (3, self._tile, self._tile) or sizes is None or sizes.size % 2:
            raise RequestError(
                f"pixel_values: got shape {list(pixels.shape)}, expected [tiles, 3, {self._tile}, "
                f"{self._tile}] with the height and width of each image in image_sizes"
            )
        pairs = tuple((int(height), int(width)) for height, width in sizes.reshape(-1, 2))
        return Views(pixels, pairs, bool(scalar(inputs, "is_video_input")))

    def encode(self, requests: Sequence[Views], salt: bytes = b"") -> list[Features]:
        pixels = np.concatenate([np.asarray(one.pixels, dtype=np.float32) for one in requests])
        features = self._session.run({"pixel_values": pixels}, salt)
        parts = np.split(features, np.cumsum([len(one.pixels) for one in requests])[:-1])
        return [
            Features(table=self._packed(part, one))
            for part, one in zip(parts, requests, strict=True)
        ]

    def _packed(self, features: NDArray[np.float32], views: Views) -> NDArray[np.float32]:
        if views.is_video:
            return anyres.pack_video(features, self._newline)
        if len(views.sizes) > 1 and self._single_views:
            return np.concatenate([anyres.pack_view(one, self._newline) for one in features])
        grids = [anyres.best_grid(size, self._grids) for size in views.sizes]
        ends = np.cumsum([anyres.tiles_of(grid, self._tile) for grid in grids])[:-1]
        parts = zip(np.split(features, ends), views.sizes, grids, strict=True)
        return np.concatenate(
            [
                anyres.pack_image(
                    part, size, grid, tile=self._tile, limit=self._limit, newline=self._newline
                )
                for part, size, grid in parts
            ]
        )
