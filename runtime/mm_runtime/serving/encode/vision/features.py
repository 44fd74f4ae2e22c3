"""What encoders return for one request, and the interface that all of them have."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mm_runtime.serving.encode.vision.runner import Rows
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.tensors import Tensors


@dataclass(frozen=True)
class Features:
    """The images of one request as the language model takes them."""

    table: Rows | None = None
    """Rows of the prompt table, [rows, hidden]."""

    encoder_rows: NDArray[np.float32] | None = None
    """What cross attention reads, [positions, hidden]."""

    cross_mask: NDArray[np.bool_] | None = None
    """[tokens, positions]."""

    rotation: NDArray[np.float32] | None = None
    """Cosine and sine for each position of the prompt and each frequency, flat."""

    rotation_delta: int = 0


class RequestEncoder(Protocol):
    """One family's vision encoder."""

    def read(self, inputs: Tensors) -> Any | None:
        """Return what a request brings to encode, None for a request without images.

        Raises:
            RequestError: the tensors do not fit together.
        """

    def encode(self, requests: Sequence[Any], salt: bytes = b"") -> list[Features]:
        """Return the features of what `read` returned for several requests of one salt."""


def refuse_cut_images(inputs: Tensors) -> None:
    """Refuse images that the client cut itself: tiles follow from their shapes, which are unknown.

    Raises:
        RequestError: the request has such.
    """
    if "IMAGE" in inputs:
        raise RequestError(
            "image_input: this model's images are cut by their shape, which a preprocessed "
            "tensor does not show; send image_bytes_input or image_url_input"
        )
