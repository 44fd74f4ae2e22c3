"""Llama 3.2 Vision's encoder: what cross attention reads, and which tokens read it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_api.documents.model_facts import VisionFacts
from mm_runtime.serving.encode.vision.features import Features, refuse_cut_images
from mm_runtime.serving.encode.vision.session import VisionSession
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.tensors import Tensors, single


@dataclass(frozen=True)
class Canvases:
    """The images of one request, tile by tile."""

    pixels: NDArray[np.floating[Any]]
    """[images, tiles, 3, side, side]."""

    ids: NDArray[np.int64]
    mask: NDArray[np.int64]
    seen: NDArray[np.int64]
    """[tokens, images, tiles]: 1 where a token reads a tile."""


class CrossAttentionEncoder:
    """The tower of one checkpoint."""

    def __init__(self, session: VisionSession, vision: VisionFacts) -> None:
        self._session = session
        self._tiles, self._side = vision.max_tiles or 1, vision.image_size

    def read(self, inputs: Tensors) -> Canvases | None:
        """Return tiles and masks."""
        refuse_cut_images(inputs)
        pixels = single(inputs, "pixel_values")
        if pixels is None:
            return None
        ids, mask = single(inputs, "aspect_ratio_ids"), single(inputs, "aspect_ratio_mask")
        seen = single(inputs, "cross_attention_mask")
        side, tiles = self._side, self._tiles
        fits = pixels.shape[1:] == (3, side, side) and len(pixels) % tiles == 0
        if not fits or ids is None or mask is None or seen is None:
            raise RequestError(
                f"pixel_values: got shape {list(pixels.shape)}, expected [images x {tiles}, 3, "
                f"{side}, {side}] with aspect_ratio_ids, aspect_ratio_mask and cross_attention_mask"
            )
        return Canvases(pixels.reshape(-1, tiles, 3, side, side), ids, mask, seen)

    def encode(self, requests: Sequence[Canvases], salt: bytes = b"") -> list[Features]:
        """Return features and mask of each request."""
        features = self._session.run(
            {
                "pixel_values": np.concatenate([one.pixels for one in requests]).astype(np.float32),
                "aspect_ratio_ids": np.concatenate([one.ids for one in requests]),
                "aspect_ratio_mask": np.concatenate([one.mask for one in requests]),
            },
            salt,
        )
        parts = np.split(features, np.cumsum([len(one.pixels) for one in requests])[:-1])
        return [self._features(one, part) for one, part in zip(requests, parts, strict=True)]

    def _features(self, one: Canvases, features: NDArray[np.float32]) -> Features:
        positions = features.shape[1] // self._tiles
        mask = np.repeat(one.seen.astype(bool), positions, axis=2).reshape(len(one.seen), -1)
        return Features(encoder_rows=features.reshape(-1, features.shape[-1]), cross_mask=mask)
