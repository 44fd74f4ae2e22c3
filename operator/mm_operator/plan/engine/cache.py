"""The key-value cache: bytes of a token, bytes of full batches, and the fraction of free memory."""

from dataclasses import dataclass
from math import floor

from mm_api.documents.build_plan import EngineLimits
from mm_api.dtypes import DTYPE_BYTES
from mm_api.families.family import Kind
from mm_operator.plan.engine.request import PlanRequest, Target
from mm_operator.plan.engine.units import ceil_to

FRACTION_STEPS = 1000
"""The fraction is rounded down to three digits: 80 MB of an H100."""

MOST_FRACTION = 0.95
"""Libraries allocate a little after start-up; TensorRT-LLM's own default leaves 10 % for it."""

SHARE_DIGITS = 4
SHARE_STEPS = 10**SHARE_DIGITS
LARGEST_SHARE = 0.99
"""Neither pool is ever starved: upstream's documented cross_kv_cache_fraction is 0.5 (#sizing)."""

SHARE_SLACK_PERMILLE = 11
"""A share between 1 % and 99 % that is rounded to four digits makes one of the two pools at most
1.1 % too small: the total is planned bigger by that."""

_KEY_AND_VALUE = 2


@dataclass(frozen=True, slots=True)
class CacheSize:
    """What the cache takes on one GPU."""

    bytes_per_token: int
    cross_bytes_per_token: int
    sequence_bytes: int
    """One sequence of maxSeqLen with its cross attention, rounded up to blocks."""
    needed_bytes: int
    cross_fraction: float | None


def cache_size(
    target: Target,
    request: PlanRequest,
    limits: EngineLimits,
    dtype: str,
    *,
    quantization: str | None,
    tokens_per_block: int,
) -> CacheSize:
    """Return the cache for full batches of the longest sequences.

    Every self-attention layer keeps a key and a value of each of a rank's heads per token; layers
    of cross attention keep them per token of the encoder: in mllama 8 layers of 40 keep those
    instead of their own (#crossing), in encoder-decoders every layer keeps both. A stage of a
    pipeline has its own layers alone; only families without cross attention are split so.
    """
    text, family, ranks = target.facts.text, target.family, request.tensor_parallel
    element = 1 if quantization == "FP8" else DTYPE_BYTES[dtype]  # --kv_cache_dtype fp8
    layer = _KEY_AND_VALUE * max(1, text.key_value_heads // ranks) * text.head_size * element
    both = family.kind is Kind.ENCODER_DECODER
    cross_layers = text.layers if both else (text.cross_attention_layers or 0)
    own = (text.layers if both else text.layers - cross_layers) // request.pipeline_parallel
    own_tokens = ceil_to(limits.max_seq_len, tokens_per_block)
    read = (limits.max_encoder_input_len or 0) if cross_layers else 0
    cross_tokens = ceil_to(read, tokens_per_block)
    own_bytes = limits.max_beam_width * own_tokens * own * layer
    cross_bytes = cross_tokens * cross_layers * layer  # beams share what was read
    share = _cross_share(own_bytes, cross_bytes, request.cross_fraction)
    sequence = own_bytes + cross_bytes
    if cross_bytes and request.cross_fraction is None:
        sequence += -(-sequence * SHARE_SLACK_PERMILLE // 1000)
    elif share is not None:  # two pools of fixed shares: the smaller one decides
        digits = round(share * SHARE_STEPS)
        sequence = max(
            -(-cross_bytes * SHARE_STEPS // max(1, digits)),
            -(-own_bytes * SHARE_STEPS // max(1, SHARE_STEPS - digits)),
        )
    needed = limits.max_batch_size * sequence
    return CacheSize(
        bytes_per_token=own * layer,
        cross_bytes_per_token=cross_layers * layer,
        sequence_bytes=sequence,
        needed_bytes=needed,
        cross_fraction=share,
    )


def _cross_share(own: int, cross: int, requested: float | None) -> float | None:
    """Return the share of cross attention: what was requested, else what full sequences need."""
    if not cross:
        return None
    if requested is not None:
        return requested
    share = min(LARGEST_SHARE, max(1 - LARGEST_SHARE, cross / (own + cross)))
    return round(share, SHARE_DIGITS)


def fraction_of(available: int, free: int) -> float:
    """Return the largest fraction, rounded down, of `free` bytes that `available` bytes allow."""
    if free <= 0 or available <= 0:
        return 0.0
    return min(MOST_FRACTION, floor(available / free * FRACTION_STEPS) / FRACTION_STEPS)
