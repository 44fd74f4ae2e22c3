"""Fixed-size towers: every image is a square, and becomes the same number of rows."""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from mm_runtime.serving.encode.vision.features import Features
from mm_runtime.serving.encode.vision.session import VisionSession
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.tensor_names import BYTES_TO_ENCODE
from mm_runtime.serving.tensors import Tensors, single

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
