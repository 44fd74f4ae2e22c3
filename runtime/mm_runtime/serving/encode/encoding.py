"""The model `multimodal_encoders`: pixel values of several requests to what the LLM takes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_runtime.serving.encode.vision.features import Features, RequestEncoder
from mm_runtime.serving.errors import NotFiniteError, RequestError
from mm_runtime.serving.tensors import Tensors, scalar, texts

Outputs = dict[str, NDArray[Any]]


def encode_requests(
    encoder: RequestEncoder, requests: Sequence[Tensors], dtype: type[np.floating[Any]]
) -> list[Outputs | Exception]:
    """Return the outputs of each request, or what is wrong with it.

    A request without images has no outputs. All images of one salt go through the encoder
    together, and a request that is refused does not spoil its neighbours: when a pass fails, each
    request of it gets one of its own, so that the error finds the request that causes it.

    `requests`: inputs of each, as its family's encoder reads them; none without images. `dtype`:
    what features are given out as.
    """
    results: list[Outputs | Exception] = []
    accepted: dict[int, Any] = {}
    for index, inputs in enumerate(requests):
        try:
            read = encoder.read(inputs)
            if read is not None:
                accepted[index] = read
            results.append({})
        except RequestError as error:
            results.append(error)
    by_salt: dict[bytes, list[int]] = {}
    for index in accepted:
        by_salt.setdefault("".join(texts(requests[index], "cache_salt")).encode(), []).append(index)
    for salt, indices in by_salt.items():
        encoded = _encoded(encoder, [accepted[index] for index in indices], salt)
        for index, features in zip(indices, encoded, strict=True):
            if isinstance(features, Exception):
                results[index] = features
                continue
            if not _is_finite(features.table) or not _is_finite(features.encoder_rows):
                results[index] = NotFiniteError(
                    "features of the request's images are not finite: NaN, or infinity"
                )
                continue
            answer = scalar(requests[index], "max_tokens") or 0
            results[index] = _outputs(features, dtype, answer)
    return results


def _encoded(
    encoder: RequestEncoder, requests: Sequence[Any], salt: bytes
) -> Sequence[Features | Exception]:
    """Return the features of requests of one salt, or the error of those that cannot be encoded."""
    try:
        return encoder.encode(requests, salt)
    except Exception as error:  # noqa: BLE001 (the client gets it, and the server lives on)
        if len(requests) == 1:
            return [error]
    return [one for request in requests for one in _encoded(encoder, [request], salt)]


def _is_finite(rows: Any) -> bool:
    """Return whether rows are finite numbers.

    Those on a GPU are not waited for: what is computed of them has logits that are not finite.
    """
    return not isinstance(rows, np.ndarray) or bool(np.isfinite(rows).all())


def _outputs(features: Features, dtype: type[np.floating[Any]], answer: int) -> Outputs:
    outputs: Outputs = {}
    if features.table is not None:
        outputs["OUT_PROMPT_EMBEDDING_TABLE"] = _one_request(features.table, dtype)
        outputs["OUT_PROMPT_VOCAB_SIZE"] = np.array([[len(features.table)]], dtype=np.int32)
    if features.encoder_rows is not None and features.cross_mask is not None:
        # Tokens of the answer read what the prompt's last token reads.
        rows = np.repeat(features.cross_mask[-1:], answer, axis=0)
        outputs |= {
            "ENCODER_INPUT_FEATURES": _one_request(features.encoder_rows, dtype),
            "ENCODER_OUTPUT_LENGTHS": np.array([[len(features.encoder_rows)]], dtype=np.int32),
            "CROSS_ATTENTION_MASK": np.concatenate((features.cross_mask, rows))[np.newaxis],
            "SKIP_CROSS_ATTN_BLOCKS": np.array([[False]]),
        }
    if features.rotation is not None:
        outputs["MROPE_ROTARY_COS_SIN"] = features.rotation[np.newaxis]
        outputs["MROPE_POSITION_DELTAS"] = np.array([[features.rotation_delta]], dtype=np.int64)
    return outputs


def _one_request(rows: Any, dtype: type[np.floating[Any]]) -> Any:
    return rows[np.newaxis].astype(dtype) if isinstance(rows, np.ndarray) else rows[None]
