"""Vision encoders: one class for each way in which images are cut up."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_api.documents.model_facts import ModelFacts, VisionFacts
from mm_runtime.serving.encode.vision.features import Features, refuse_cut_images
from mm_runtime.serving.encode.vision.session import VisionSession
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.geometry import anyres
from mm_runtime.serving.geometry.rotation import SECONDS_PER_GRID, Rotation, patch_positions, rotate
from mm_runtime.serving.tensor_names import BYTES_TO_ENCODE
from mm_runtime.serving.tensors import Tensors, scalar, single

Pixels = NDArray[np.float16] | NDArray[np.float32] | NDArray[np.uint8]
"""[images, 3, S, S], or bytes [images, S, S, 3]. Clients may send values in the order of bytes."""


class VisionEncoder:
    """Encodes the images of several requests in as few runs as the batch limit allows."""

    def __init__(self, session: VisionSession, *, image_size: int) -> None:
        """Take a session.

        `session`: `pixel_values` [batch, 3, S, S] -> `features` float32 [batch, rows, hidden].
        Where models send bytes, it takes those, too. `image_size`: S in pixels.
        """
        self._session = session
        self._image_shape = (3, image_size, image_size)
        self._bytes_shape = (image_size, image_size, 3)

    def read(self, inputs: Tensors) -> Pixels | None:
        """Return the images of a request, from whichever input holds them."""
        images = single(inputs, BYTES_TO_ENCODE)
        if images is not None:
            if images.shape[1:] != self._bytes_shape:
                raise RequestError(
                    f"{BYTES_TO_ENCODE}: got shape {list(images.shape)}, "
                    f"expected [images, {', '.join(map(str, self._bytes_shape))}]"
                )
            return images
        pixels = single(inputs, "IMAGE")
        pixels = single(inputs, "pixel_values") if pixels is None else pixels
        if pixels is None:
            return None
        if pixels.shape[1:] == self._bytes_shape != self._image_shape:
            return np.ascontiguousarray(np.moveaxis(pixels, -1, 1))
        if pixels.ndim != 1 + len(self._image_shape) or pixels.shape[1:] != self._image_shape:
            _, side, _ = self._image_shape
            raise RequestError(
                f"preprocessed images: got shape {list(pixels.shape)}, "
                f"expected [images, 3, {side}, {side}] or [images, {side}, {side}, 3]"
            )
        return pixels

    def encode(self, requests: Sequence[Pixels], salt: bytes = b"") -> list[Features]:
        """Return one prompt table a request: float32 [images x rows, hidden].

        Images of all requests are put together, so one run serves several requests. Those of one
        are not copied, and keep their 8 or 16 bits: the digest of a cache reads every byte.
        """
        if len({one.dtype for one in requests}) > 1:  # images of clients beside the gateway's
            return [self.encode([one], salt)[0] for one in requests]
        pixels = requests[0] if len(requests) == 1 else np.concatenate(requests)
        features = self._session.run({"pixel_values": pixels}, salt)
        ends = list(accumulate(len(request) for request in requests))
        tables = [features[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        return [Features(table=table.reshape(-1, table.shape[-1])) for table in tables]


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
            return np.concatenate([row for one in features for row in (one, self._newline[None])])
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


Grid = tuple[int, int, int]


@dataclass(frozen=True)
class Grids:
    """The patches of one request, the grid of each image and the prompt they stand in."""

    patches: NDArray[np.floating[Any]]
    grids: tuple[Grid, ...]
    ids: NDArray[np.int32]
    """The prompt, images as ids past the vocabulary."""

    seconds: tuple[float, ...]
    """From one pair of frames to the next, of each grid."""


class GridEncoder:
    """The tower of one checkpoint whose images are patches of any shape, and the rotation."""

    def __init__(self, session: VisionSession, facts: ModelFacts, llm: Path) -> None:
        """Read the rotation's constants from the language model's configuration."""
        config = json.loads((llm / "config.json").read_text(encoding="utf-8"))
        self._session = session
        self._merge = (facts.vision.merge_size or 1) if facts.vision else 1
        self._vocabulary = facts.text.vocabulary_size
        self._rotation = Rotation.of(config, facts.text.head_size)
        self._tokens_per_second = facts.vision.tokens_per_second if facts.vision else None

    def read(self, inputs: Tensors) -> Grids | None:
        """Return patches, grids and prompt."""
        if "IMAGE" in inputs:
            raise RequestError(
                "image_input: this model's images keep their shape, which a preprocessed tensor "
                "does not show; send image_bytes_input or image_url_input"
            )
        pixels, grid = single(inputs, "pixel_values"), single(inputs, "image_grid_thw")
        ids = single(inputs, "vision_input_id")
        seconds = single(inputs, "second_per_grid_ts")
        if pixels is None:
            return None
        if grid is None or grid.size % 3 or ids is None:
            raise RequestError(
                "pixel_values: image_grid_thw (three numbers an image) and vision_input_id are "
                "needed beside them"
            )
        grids = tuple((int(t), int(h), int(w)) for t, h, w in grid.reshape(-1, 3))
        patches = pixels.reshape(-1, pixels.shape[-1])
        if len(patches) != sum(t * h * w for t, h, w in grids):
            raise RequestError(
                f"pixel_values: {len(patches)} patches do not fill the grids {list(grids)}"
            )
        if seconds is None:
            seconds = np.full(len(grids), SECONDS_PER_GRID)
        if seconds.size != len(grids):
            raise RequestError(
                f"second_per_grid_ts: got {seconds.size} values, expected one for each of "
                f"{len(grids)} grids"
            )
        return Grids(patches, grids, ids, tuple(seconds.reshape(-1).tolist()))

    def encode(self, requests: Sequence[Grids], salt: bytes = b"") -> list[Features]:
        """Return prompt table of each request, and what its prompt needs besides."""
        shapes: dict[tuple[int, int], list[NDArray[np.float32]]] = {}
        places: list[list[tuple[tuple[int, int], int]]] = []
        for one in requests:
            places.append([])
            ends = np.cumsum([t * h * w for t, h, w in one.grids])[:-1]
            for part, (t, h, w) in zip(np.split(one.patches, ends), one.grids, strict=True):
                for frame in np.split(part, t):
                    together = shapes.setdefault((h, w), [])
                    places[-1].append(((h, w), len(together)))
                    together.append(frame.astype(np.float32))
        done = {shape: self._run(shape, frames, salt) for shape, frames in shapes.items()}
        return [
            self._features(one, np.concatenate([done[shape][at] for shape, at in found]))
            for one, found in zip(requests, places, strict=True)
        ]

    def _run(
        self, shape: tuple[int, int], frames: list[NDArray[np.float32]], salt: bytes
    ) -> NDArray[np.float32]:
        positions = patch_positions(*shape, self._merge)
        repeated = np.broadcast_to(positions, (len(frames), *positions.shape))
        features: NDArray[np.float32] = self._session.run(
            {"pixel_values": np.stack(frames), "patch_positions": np.ascontiguousarray(repeated)},
            salt,
        )
        return features

    def _features(self, one: Grids, table: NDArray[np.float32]) -> Features:
        blocks = [(t, h // self._merge, w // self._merge) for t, h, w in one.grids]
        rate = self._tokens_per_second
        intervals = [1.0 if rate is None else rate * seconds for seconds in one.seconds]
        values, delta = rotate(one.ids >= self._vocabulary, blocks, self._rotation, intervals)
        return Features(table=table, rotation=values, rotation_delta=delta)
