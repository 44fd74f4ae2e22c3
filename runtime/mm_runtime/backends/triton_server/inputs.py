"""PURE: a request of the gateway as input tensors of its ensembles."""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_edge.errors import InvalidRequestError
from mm_runtime.backends.triton_server.client import Tensor
from mm_runtime.gateway.backends.engine import EngineRequest, Form, Sampling
from mm_runtime.gateway.media.frames import Video
from mm_runtime.repository.configs.gateway_inputs import (
    BIAS_IDS,
    BIAS_WEIGHTS,
    GUIDE,
    GUIDE_TYPE,
    LIKELIEST,
    RETURN_LOG_PROBS,
    SPECTROGRAM,
)

_MOST_PIXEL_BYTES = 512 << 20
"""Size of all images of a request in one tensor: as much as bodies share. Two strips of 1 x 50,000
and 50,000 x 1 pixels would be padded to 15 GB."""

_NO_END = -1
"""Instead of an end token: what upstream's client sends for an answer that only its length ends."""

_LEAST = np.finfo(np.float32).tiny
"""Positive number of 32 bits."""


def build_inputs(request: EngineRequest, *, newer_names: bool) -> list[Tensor]:
    """Return the ensemble's input tensors, each with a batch dimension of one.

    `newer_names`: of inputs that versions of TensorRT-LLM call differently; Reference takes both.
    """
    inputs = [
        Tensor("text_input", np.array([[request.prompt.encode()]], dtype=np.object_)),
        Tensor("max_tokens", np.array([[request.max_tokens]], dtype=np.int32)),
        Tensor("stream", np.array([[True]], dtype=np.bool_)),
        *_sampling_inputs(request.sampling, newer_names=newer_names),
        *_score_inputs(request),
        *_form_inputs(request.form),
    ]
    if request.cache_salt:
        salt = np.array([[request.cache_salt.encode()]], dtype=np.object_)
        inputs.append(Tensor("cache_salt", salt))
    if request.adapter is not None:
        inputs.append(Tensor("lora_task_id", np.array([[request.adapter]], dtype=np.uint64)))
    if request.audio is not None:
        inputs.append(Tensor("WAV", request.audio[np.newaxis]))
    if request.spectrogram is not None:
        inputs.append(Tensor(SPECTROGRAM, request.spectrogram[np.newaxis]))
    return [
        *inputs,
        *_image_inputs(request.images),
        *_video_inputs(request.videos),
    ]


def _image_inputs(images: tuple[NDArray[np.uint8], ...]) -> list[Tensor]:
    """Return one tensor of all images; different sizes are padded, and sent along."""
    if not images:
        return []
    sizes = np.array([image.shape[:2] for image in images], dtype=np.int64)
    if (sizes == sizes[0]).all():
        # Most requests have one, which needs no copy.
        pixels = images[0][np.newaxis] if len(images) == 1 else np.stack(images)
        return [Tensor("image_bytes_input", pixels[np.newaxis])]
    padded = _canvases(sizes, "images", "invalid_image")
    for canvas, image in zip(padded, images, strict=True):
        canvas[: image.shape[0], : image.shape[1]] = image
    return [
        Tensor("image_bytes_input", padded[np.newaxis]),
        Tensor("image_sizes_input", sizes[np.newaxis]),
    ]


def _video_inputs(videos: tuple[Video, ...]) -> list[Tensor]:
    """Return the tensors of a request's video, which is the only one."""
    inputs = [Tensor("video_bytes_input", one.pixels[np.newaxis]) for one in videos]
    lengths = [one.seconds for one in videos if one.seconds is not None]
    if lengths:
        inputs.append(Tensor("video_seconds_input", np.array([lengths], dtype=np.float32)))
    return inputs


def _canvases(sizes: NDArray[np.integer[Any]], what: str, code: str) -> NDArray[np.uint8]:
    """Return black uint8[n, height, width, 3] in which all of these sizes fit.

    `what`: they are, for messages.
    """
    shape = (len(sizes), *sizes.max(axis=0).tolist(), 3)
    if prod(shape) > _MOST_PIXEL_BYTES:
        raise InvalidRequestError(
            f"The {shape[0]} {what} are together up to {shape[2]} pixels wide and {shape[1]} high: "
            "too different in shape for one request. Cut them, or send them one by one.",
            code=code,
        )
    return np.zeros(shape, dtype=np.uint8)


def _score_inputs(request: EngineRequest) -> list[Tensor]:
    wanted = []
    if request.likeliest is not None:
        wanted.append(Tensor(RETURN_LOG_PROBS, np.array([[True]], dtype=np.bool_)))
    if request.likeliest:
        wanted.append(Tensor(LIKELIEST, np.array([[request.likeliest]], dtype=np.int32)))
    return wanted


def _form_inputs(form: Form | None) -> list[Tensor]:
    if form is None:
        return []
    texts = {GUIDE_TYPE: form.kind, **({GUIDE: form.text} if form.text else {})}
    return [
        Tensor(name, np.array([[text.encode(errors="replace")]], dtype=np.object_))
        for name, text in texts.items()
    ]


def _number(value: float) -> NDArray[np.float32]:
    """Return a number in 32 bits, of which no positive one becomes 0.

    A `top_p` of 0 is none that is set: all tokens would be drawn, where the likeliest are wanted.
    """
    found = np.array([[value]], dtype=np.float32)
    return np.maximum(found, _LEAST) if value > 0 else found


_MADE: Mapping[str, Callable[[float], NDArray[Any]]] = {
    "FP32": _number,
    "INT32": lambda value: np.array([[value]], dtype=np.int32),
    "UINT64": lambda value: np.array([[value]], dtype=np.uint64),
}


def _sampling_inputs(sampling: Sampling, *, newer_names: bool) -> list[Tensor]:
    # 0 switches top-k off; TensorRT-LLM's default of 1 would be greedy.
    values = {"top_k": np.array([[sampling.top_k if sampling.temperature > 0 else 1]], np.int32)}
    for one, value in sampling.used():
        name = one.name if newer_names else one.inputs[0]
        values[name] = _MADE[one.type](value)
    inputs = [Tensor(name, array) for name, array in values.items()]
    if sampling.ignores_end:
        inputs.append(Tensor("end_id", np.array([[_NO_END]], dtype=np.int32)))
    if sampling.bias:
        ids, weights = zip(*sampling.bias, strict=True)
        inputs.append(Tensor(BIAS_IDS, np.array([ids], dtype=np.int32)))
        inputs.append(Tensor(BIAS_WEIGHTS, np.array([weights], dtype=np.float32)))
    return inputs
