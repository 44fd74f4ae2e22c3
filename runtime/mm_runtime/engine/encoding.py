"""The model `multimodal_encoders`: pixel values of several requests to their prompt tables."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_runtime.engine.errors import RequestError
from mm_runtime.engine.tensors import Tensors, single
from mm_runtime.engine.vision.encoder import Pixels, VisionEncoder

Outputs = dict[str, NDArray[Any]]


def encode_requests(
    encoder: VisionEncoder, requests: Sequence[Tensors], dtype: type[np.floating[Any]]
) -> list[Outputs | RequestError]:
    """Return the outputs of each request, or what is wrong with it.

    A request without pictures has no outputs. All pictures go through the encoder together, and a
    request that is refused does not spoil its neighbours.

    Args:
        encoder: the vision engine.
        requests: `IMAGE` or `pixel_values` [1, images, 3, S, S] of each, or neither.
        dtype: what the prompt tables are given out as.
    """
    results: list[Outputs | RequestError] = []
    accepted: dict[int, Pixels] = {}
    for index, inputs in enumerate(requests):
        try:
            pixels = _pixels(inputs)
            if pixels is not None:
                encoder.check(pixels)
                accepted[index] = pixels
            results.append({})
        except RequestError as error:
            results.append(error)
    tables = encoder.encode(list(accepted.values()))
    for index, table in zip(accepted, tables, strict=True):
        results[index] = {
            "OUT_PROMPT_EMBEDDING_TABLE": table[np.newaxis].astype(dtype),
            "OUT_PROMPT_VOCAB_SIZE": np.array([[len(table)]], dtype=np.int32),
        }
    return results


def _pixels(inputs: Tensors) -> Pixels | None:
    """Return [images, 3, S, S] from whichever input holds pictures."""
    pixels = single(inputs, "IMAGE")
    return single(inputs, "pixel_values") if pixels is None else pixels
