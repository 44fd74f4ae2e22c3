"""One ONNX Runtime session of the vision tower and projector, batched over requests."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from mm_runtime.engine.errors import RequestError

Pixels = NDArray[np.float16] | NDArray[np.float32]


class VisionEncoder:
    """Encodes the pictures of several requests in as few runs as the batch limit allows."""

    def __init__(
        self, model: Path, *, max_batch_size: int, image_size: int, threads: int = 1
    ) -> None:
        """Load the model on CPU.

        Args:
            model: `pixel_values` float32 [batch, 3, S, S] -> `features` [batch, rows, hidden].
            max_batch_size: pictures in one run at most.
            image_size: S in pixels.
            threads: processor threads of one run.
        """
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # warnings on unused initialisers of exports help nobody
        options.intra_op_num_threads = threads
        # Idle threads would spin on cores that the language model needs.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session: Any = onnxruntime.InferenceSession(
            str(model), options, providers=["CPUExecutionProvider"]
        )
        self._max_batch_size = max_batch_size
        self._image_shape = (3, image_size, image_size)

    def check(self, pixels: Pixels) -> None:
        """Refuse anything but [images, 3, S, S].

        Raises:
            RequestError: the shape got and the one expected.
        """
        if pixels.ndim != 1 + len(self._image_shape) or pixels.shape[1:] != self._image_shape:
            _, side, _ = self._image_shape
            raise RequestError(
                f"preprocessed images: got shape {list(pixels.shape)}, "
                f"expected [images, 3, {side}, {side}]"
            )

    def encode(self, requests: Sequence[Pixels]) -> list[NDArray[np.float32]]:
        """Return one prompt table a request: float32 [images x rows, hidden].

        Pictures of all requests are put together, so one run serves several requests.

        Args:
            requests: checked pixel values [images, 3, S, S] of each request.
        """
        if not requests:
            return []
        pixels = np.concatenate([np.asarray(request, dtype=np.float32) for request in requests])
        runs = [
            self._session.run(
                ["features"], {"pixel_values": pixels[at : at + self._max_batch_size]}
            )
            for at in range(0, len(pixels), self._max_batch_size)
        ]
        features = np.concatenate([run[0] for run in runs])
        tables = np.split(features, np.cumsum([len(request) for request in requests])[:-1])
        return [table.reshape(-1, table.shape[-1]) for table in tables]
