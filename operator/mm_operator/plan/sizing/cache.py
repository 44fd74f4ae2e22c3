"""The key-value cache: bytes of a token, bytes of full batches, and the fraction of free memory."""

from dataclasses import dataclass
from math import floor

from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.model_plan import PlannedLimits
from mm_operator.plan.families.family import Family, Kind
from mm_operator.plan.pools import ceil_to
from mm_operator.plan.sizing.weights import DTYPE_BYTES

FRACTION_STEPS = 1000
"""The fraction is rounded down to three digits: 80 MB of an H100."""

CROSS_FRACTION = 0.5
"""Upstream's documented cross_kv_cache_fraction (facts 1b, 1e)."""

_KEY_AND_VALUE = 2


@dataclass(frozen=True, slots=True)
class CacheSize:
    """What the cache takes on one GPU."""

    bytes_per_token: int
    cross_bytes_per_token: int
    sequence_bytes: int
    """One sequence of maxSeqLen with its cross attention, in whole blocks."""
    needed_bytes: int
    cross_fraction: float | None


def cache_size(
    facts: ModelFacts,
    family: Family,
    limits: PlannedLimits,
    *,
    ranks: int,
    dtype: str,
    quantization: str | None,
    tokens_per_block: int,
    cross_fraction: float | None,
) -> CacheSize:
    """Return the cache for full batches of the longest sequences.

    Every self-attention layer keeps a key and a value of each of a rank's heads per token; layers
    of cross attention keep them per token of the encoder: in mllama 8 layers of 40 keep those
    instead of their own (facts 9), in encoder-decoders every layer keeps both.
    """
    text = facts.text
    element = 1 if quantization == "FP8" else DTYPE_BYTES[dtype]  # --kv_cache_dtype fp8
    layer = _KEY_AND_VALUE * max(1, text.key_value_heads // ranks) * text.head_size * element
    both = family.kind is Kind.ENCODER_DECODER
    crossing = text.layers if both else (text.cross_attention_layers or 0)
    own = text.layers if both else text.layers - crossing
    own_tokens = ceil_to(limits.max_seq_len, tokens_per_block)
    cross_tokens = ceil_to(limits.max_encoder_input_len, tokens_per_block) if crossing else 0
    own_bytes = limits.max_beam_width * own_tokens * own * layer
    cross_bytes = cross_tokens * crossing * layer  # beams share what was read
    share = _cross_share(own_bytes, cross_bytes, cross_fraction)
    needed = limits.max_batch_size * (own_bytes + cross_bytes)
    if share is not None:  # two pools of fixed shares: the smaller one decides
        needed = limits.max_batch_size * max(
            -(-cross_bytes * 1000 // floor(share * 1000)),
            -(-own_bytes * 1000 // (1000 - floor(share * 1000))),
        )
    return CacheSize(
        bytes_per_token=own * layer,
        cross_bytes_per_token=crossing * layer,
        sequence_bytes=-(-needed // limits.max_batch_size),
        needed_bytes=needed,
        cross_fraction=share,
    )


def _cross_share(own: int, cross: int, asked: float | None) -> float | None:
    """Return the share of cross attention: what was asked, else what full sequences need."""
    if not cross:
        return None
    if asked is not None:
        return asked
    return min(0.99, max(0.01, round(cross / (own + cross), 2)))


def fraction_of(available: int, free: int) -> float:
    """Return the largest fraction, rounded down, of `free` bytes that `available` bytes allow."""
    if free <= 0 or available <= 0:
        return 0.0
    return min(1.0, floor(available / free * FRACTION_STEPS) / FRACTION_STEPS)
