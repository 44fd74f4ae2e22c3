"""Features of images that disaggregated encoders have computed, as files that vLLM reads.

vLLM's own ECExampleConnector looks for KEY/encoder_cache.safetensors in its folder, where KEY is
the `uuid` of an image; where there is none its own tower encodes the image. A file that ends early,
or vanishes once a step has begun, ends vLLM's engine: files come by a rename, and stay for as long
as a request may be in a step.
"""

import io
import json
import logging
import os
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mm_edge.tracing import span
from mm_runtime.gateway.media.as_sent import AsSent
from mm_runtime.serving.encode.disaggregated.client import EncoderError
from mm_runtime.serving.encode.disaggregated.dispatcher import EncodingClient
from mm_runtime.serving.encode.disaggregated.responses import TABLE
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.processors.prepared import ImageProcessor
from mm_runtime.serving.preprocess.processors.squares import SquareProcessor
from mm_runtime.serving.tensors import BFLOAT16_BITS

logger = logging.getLogger(__name__)

FILE: Final = "encoder_cache.safetensors"
_TENSOR = "ec_cache"
_TYPES: Final = {
    np.dtype(np.float32): "F32",
    np.dtype(np.float16): "F16",
    BFLOAT16_BITS: "BF16",
}
_FOLDER_BYTES = 4096
"""An image takes so much at the least: vLLM makes a folder for each that it looks for."""

LEAVING_SECONDS = 30.0
"""Until no step of vLLM has a request whose client has left; it ends them between two steps."""

PARALLEL = 8
"""Requests whose images are with encoders at one time: a thread each, which waits."""


@dataclass(slots=True)
class _Kept:
    size: int = _FOLDER_BYTES
    ready: bool = False
    users: int = 0
    free_from: float = 0.0


class FeatureFolder:
    """The files; those of images seen before stay while there is room. Any thread may use it.

    Args:
        root: in shared memory; what another gateway has left there goes.
        most_bytes: of all files.
        clock: only goes forward.
    """

    def __init__(
        self, root: Path, most_bytes: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._root, self._most, self._clock = root, most_bytes, clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        """The one that was used last at the end."""

        root.mkdir(parents=True, exist_ok=True)
        for left in root.iterdir():
            shutil.rmtree(left, ignore_errors=True)

    def hold(self, key: str) -> bool:
        """Keep what there is of an image until it is released; return whether it has features."""
        with self._lock:
            if key not in self._kept:
                self._fits(_FOLDER_BYTES)
                self._kept[key] = _Kept()
            self._kept.move_to_end(key)
            self._kept[key].users += 1
            return self._kept[key].ready

    def write(self, key: str, features: NDArray[Any]) -> bool:
        """Write features [rows, hidden] of an image that is held; return whether there was room."""
        content = np.ascontiguousarray(features)
        entry = {
            "dtype": _TYPES[content.dtype],
            "shape": content.shape,
            "data_offsets": (0, content.nbytes),
        }
        head = json.dumps({_TENSOR: entry}).encode()
        head += b" " * (-len(head) % 8)
        size = 8 + len(head) + content.nbytes
        with self._lock:
            one = self._kept[key]
            if one.ready:
                return True
            if not self._fits(size):
                return False
            one.size += size
        path = self._root / key / FILE
        beside = path.with_name(f".{threading.get_ident()}")
        try:
            path.parent.mkdir(exist_ok=True)
            with beside.open("wb") as file:
                file.write(len(head).to_bytes(8, "little") + head)
                file.write(content.reshape(-1).view(np.uint8).data)
            os.replace(beside, path)  # noqa: PTH105 (as durable files do)
        except OSError as error:  # the folder is full of what others wrote
            beside.unlink(missing_ok=True)
            with self._lock:
                one.size -= size
            logger.warning("features cannot be handed over: %s", error)
            return False
        with self._lock:
            one.size -= size * one.ready  # of another request that wrote the same
            one.ready = True
        return True

    def release(self, key: str, *, answered: bool) -> None:
        """Say that a request needs an image no more: it was answered, or its client has left."""
        with self._lock:
            one = self._kept[key]
            one.users -= 1
            free = self._clock() + (0 if answered else LEAVING_SECONDS)
            one.free_from = max(one.free_from, free)

    def _fits(self, size: int) -> bool:
        """Make room, and return whether there is."""
        excess = sum(one.size for one in self._kept.values()) + size - self._most
        now = self._clock()
        for key, one in list(self._kept.items()):
            if excess <= 0:
                break
            if not one.users and one.free_from <= now:
                shutil.rmtree(self._root / key, ignore_errors=True)
                del self._kept[key]
                excess -= one.size
        return excess <= 0


@dataclass(frozen=True, slots=True)
class HandOver:
    """Lets encoders compute what vLLM will look for.

    Attributes:
        folder: where vLLM looks.
        encoders: what computes them.
        processor: of the family's images.
        vocabulary: ids from here on are features of images.
    """

    folder: FeatureFolder
    encoders: EncodingClient
    processor: ImageProcessor
    vocabulary: int
    _free: threading.Semaphore

    def hold(
        self, keys: Sequence[str], images: Sequence[NDArray[np.uint8]], salt: str
    ) -> Callable[[bool], None]:
        """Hand the features of a request's images over; return what releases them.

        Images that no encoder answers are left to vLLM's own tower.
        """
        held: list[str] = []

        def release(answered: bool) -> None:  # noqa: FBT001 (the only word of a callback)
            for key in held:
                self.folder.release(key, answered=answered)

        try:
            for key, image in zip(keys, images, strict=True):
                known = self.folder.hold(key)
                held.append(key)
                if not known:
                    self._encode(key, image, salt)
        except BaseException:
            release(False)  # noqa: FBT003
            raise
        return release

    def _encode(self, key: str, image: NDArray[np.uint8], salt: str) -> None:
        try:
            inputs = self._inputs(image) | {"cache_salt": np.array([[salt.encode()]], np.object_)}
            with self._free, span("encode") as part:
                table = self.encoders.encode(inputs, part.headers if part else ())[TABLE][0]
        except (EncoderError, RequestError) as error:
            logger.warning("vLLM encodes an image itself: %s", error)
            return
        if not self.folder.write(key, table):
            logger.warning("vLLM encodes an image itself: the folder of features is full")

    def _inputs(self, image: NDArray[np.uint8]) -> dict[str, NDArray[Any]]:
        processor = self.processor
        pixels = (
            Image.open(io.BytesIO(image.file)).convert("RGB")
            if isinstance(image, AsSent)
            else Image.fromarray(image)
        )
        if isinstance(processor, SquareProcessor):
            made = processor.prepare_bytes([pixels])
        else:
            made = processor.prepare([pixels])
        inputs = {name.lower(): one[np.newaxis] for name, one in made.tensors.items()}
        if "image_grid_thw" in inputs:
            # Rotated positions are vLLM's own; the encoder's are those of an image alone.
            ids = np.full((1, sum(made.rows)), self.vocabulary, dtype=np.int32)
            inputs["vision_input_id"] = ids
        return inputs
