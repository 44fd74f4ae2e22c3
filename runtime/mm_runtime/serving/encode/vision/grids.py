"""Images that keep their shape: those of one share a run; positions get three coordinates."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_api.documents.model_facts import ModelFacts
from mm_runtime.serving.encode.vision.features import Features
from mm_runtime.serving.encode.vision.session import VisionSession
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.geometry.rotation import SECONDS_PER_GRID, Rotation, patch_positions, rotate
from mm_runtime.serving.tensors import Tensors, single

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
