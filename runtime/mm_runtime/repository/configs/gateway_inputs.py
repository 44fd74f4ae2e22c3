"""PURE: inputs that only the gateway's own ensembles take, for what OpenAI's clients may request.

Names of tensors of the ensembles, and of the models behind them. Upstream has none of these but
`embedding_bias_weights` and `return_log_probs`. Between their first two steps images of one size
are bytes, where clients' ensembles have upstream's values; and where nothing is kept of prompts,
images get no ids, each of which is a digest of all its pixels.
"""

from mm_runtime.repository.model_config import DataType, EnsembleStep, Input, optional
from mm_runtime.repository.values import RepositoryValues
from mm_runtime.serving.sampling_table import OWN
from mm_runtime.serving.tensor_names import BYTES_PREPARED, BYTES_TO_ENCODE

BIAS_IDS, BIAS_WEIGHTS = "embedding_bias_ids", "embedding_bias_weights"
RETURN_LOG_PROBS = "return_log_probs"
LIKELIEST = "likeliest_log_probs"
"""How many of the likeliest tokens have their log probability reported, at each place."""

GUIDE_TYPE, GUIDE = "guided_decoding_guide_type", "guided_decoding_guide"
"""The form of an answer."""

SPECTROGRAM = "spectrogram_input"
"""Input of a window of longer audio, instead of its samples: which value is the loudest is known of
all of it only."""

_IDS = "_OUT_PROMPT_TABLE_EXTRA_IDS"
_VALUES, _BYTES = "_PIXEL_VALUES", "_PIXEL_BYTES"
_AS_BYTES = {"PIXEL_VALUES": BYTES_PREPARED, "pixel_values": BYTES_TO_ENCODE}
_PREPARED = {"EMBEDDING_BIAS_IDS": BIAS_IDS}
_FORM = (optional(GUIDE_TYPE, DataType.STRING, 1), optional(GUIDE, DataType.STRING, 1))
_OWN = (
    *(optional(one.name, DataType[one.type], 1) for one in OWN),
    optional(LIKELIEST, DataType.INT32, 1),
)
"""Inputs of the Reference engine: TensorRT-LLM's own backend has no such inputs."""


def _generated(values: RepositoryValues) -> tuple[Input, ...]:
    own = _OWN if values.own_tensors else ()
    return (*own, *_FORM) if values.keeps_forms else own


def inputs(values: RepositoryValues) -> tuple[Input, ...]:
    """Return what the ensembles of the gateway take besides what clients of Triton may send."""
    own = _generated(values)
    if values.accepts_audio and values.own_tensors:
        own = (*own, optional(SPECTROGRAM, DataType.FP32, -1, -1))
    return (optional(BIAS_IDS, DataType.INT32, -1), *own)


def of_clients(inputs: tuple[Input, ...], values: RepositoryValues) -> tuple[Input, ...]:
    """Return what the ensembles take as clients send it, samples being one of two ways."""
    either = values.accepts_audio and values.own_tensors
    return tuple(
        optional("WAV", DataType.FP32, -1) if either and one.name == "WAV" else one
        for one in inputs
    )


def connected(
    steps: tuple[EnsembleStep, ...], values: RepositoryValues
) -> tuple[EnsembleStep, ...]:
    """Return the steps of an ensemble with these inputs connected: its first and its last one."""
    first, *between, last = steps
    generated = {one.name: one.name for one in _generated(values)}
    prepared = dict(_PREPARED)
    if values.accepts_audio and values.own_tensors:
        prepared["SPECTROGRAM"] = SPECTROGRAM
    first = EnsembleStep(first.model_name, {**first.input_map, **prepared}, first.output_map)
    if values.pixel_bytes:
        first, between = _passing_bytes(first), [*map(_passing_bytes, between)]
    if values.own_tensors and values.serving.reuse_bytes is None:
        first, last = _without_ids(first), _without_ids(last)
    return (
        first,
        *between,
        EnsembleStep(last.model_name, {**last.input_map, **generated}, last.output_map),
    )


def _without_ids(step: EnsembleStep) -> EnsembleStep:
    """Return a step without the ids of images, by which what is kept of prompts is found."""
    return EnsembleStep(
        step.model_name,
        {name: one for name, one in step.input_map.items() if one != _IDS},
        {name: one for name, one in step.output_map.items() if one != _IDS},
    )


def _passing_bytes(step: EnsembleStep) -> EnsembleStep:
    """Return a step that makes or reads bytes of images in place of values."""
    return EnsembleStep(
        step.model_name,
        {_AS_BYTES.get(name, name): _bytes_of(one) for name, one in step.input_map.items()},
        {_AS_BYTES.get(name, name): _bytes_of(one) for name, one in step.output_map.items()},
    )


def _bytes_of(tensor: str) -> str:
    return _BYTES if tensor == _VALUES else tensor
