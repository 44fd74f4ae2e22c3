"""PURE: what an encoder's answer must be before the language model reads it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mm_api.documents.build_plan import VisionPlan
from mm_api.documents.model_facts import ModelFacts
from mm_api.families import FAMILIES
from mm_api.families.family import Kind
from mm_runtime.serving.encode.encoding import Outputs
from mm_runtime.serving.tensors import BFLOAT16_BITS, all_finite

TABLE, ROWS = "OUT_PROMPT_EMBEDDING_TABLE", "OUT_PROMPT_VOCAB_SIZE"
FEATURES, FEATURE_ROWS = "ENCODER_INPUT_FEATURES", "ENCODER_OUTPUT_LENGTHS"
_CROSS_ATTENTION = frozenset(
    {FEATURES, FEATURE_ROWS, "CROSS_ATTENTION_MASK", "SKIP_CROSS_ATTN_BLOCKS"}
)
_ROTARY = frozenset({"MROPE_ROTARY_COS_SIN", "MROPE_POSITION_DELTAS"})
_TABLES = frozenset({TABLE, ROWS})
_LEAVES_AS = {np.dtype(np.float32): BFLOAT16_BITS}


class InvalidResponseError(Exception):
    """An answer that the language model must not read; says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class ExpectedFeatures:
    """What features of one engine look like."""

    names: frozenset[str]
    hidden_size: int
    dtype: Any
    """In which a model makes them: float32 where bfloat16 leaves it, and bits may come as well."""

    rows_per_image: int | None
    """None: it differs from image to image."""

    @classmethod
    def of(cls, facts: ModelFacts, plan: VisionPlan, dtype: Any) -> "ExpectedFeatures":
        """Return what features of an engine look like; `dtype` is that of the prompt table."""
        family = FAMILIES[facts.family]
        tables = _CROSS_ATTENTION if family.kind is Kind.CROSS_ATTENTION else _TABLES
        return cls(
            names=tables | _ROTARY if family.layout.rotated else tables,
            hidden_size=facts.row_size,
            dtype=np.dtype(dtype),
            rows_per_image=plan.features_per_image if family.layout.is_square else None,
        )


def checked(outputs: Outputs, expected: ExpectedFeatures, images: int) -> Outputs:
    """Return the outputs of a request when they are features.

    Raises:
        InvalidResponseError: a tensor is missing or has an unexpected shape, type or value.
    """
    if outputs.keys() != expected.names:
        raise InvalidResponseError(
            f"got tensors {sorted(outputs)}, expected {sorted(expected.names)}"
        )
    name, length = (TABLE, ROWS) if TABLE in outputs else (FEATURES, FEATURE_ROWS)
    features = outputs[name]
    shape = (1, None, expected.hidden_size)
    if features.ndim != len(shape) or (len(features), features.shape[-1]) != (1, shape[-1]):
        raise InvalidResponseError(
            f"{name}: got shape {list(features.shape)}, expected [1, rows, {expected.hidden_size}]"
        )
    if features.dtype not in {expected.dtype, _LEAVES_AS.get(expected.dtype)}:
        raise InvalidResponseError(f"{name}: got {features.dtype}, expected {expected.dtype}")
    rows = features.shape[1]
    if outputs[length].reshape(-1).tolist() != [rows]:
        raise InvalidResponseError(f"{length}: got {outputs[length].tolist()} for {rows} rows")
    if expected.rows_per_image is not None and rows != images * expected.rows_per_image:
        total = images * expected.rows_per_image
        raise InvalidResponseError(f"{name}: got {rows} rows for {images} images, not {total}")
    if not all_finite(features):
        raise InvalidResponseError(f"{name}: holds NaN or infinite values")
    return outputs
