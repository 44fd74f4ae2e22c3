"""Bytes that the Reference engine's largest step computes in, on a GPU as on the processor."""

from mm_api.documents.build_plan import EngineLimits
from mm_operator.plan.engine.target import Target

VALUE_BYTES = 4
"""Size of a logit, of a norm's value and of a sum, which are float32."""

_LOGITS_ROWS = 64
"""Rows of logits beyond those of a step: plans with them were compared with drivers' figures."""

_SAMPLED_AT_ONCE = 1 << 20
"""Logits that are sorted at one time (`mm_runtime.reference_engine.choosing`)."""

_SAMPLING_BYTES = 64
"""Memory of each of them: values, places, masses and their sums, and what sorting takes beside."""


def step_bytes(target: Target, limits: EngineLimits, size: int, *, beams: int) -> int:
    """Return the bytes of rows, their mask, logits and sampling, in elements of `size`."""
    text = target.facts.text
    prompt = min(limits.max_num_tokens, limits.max_input_len)
    rows = prompt + limits.max_batch_size
    heads = (text.attention_heads + 2 * text.key_value_heads) * text.head_size
    # The residual twice, in the dtype and in float32 as norms compute, and the perceptron's inside.
    width = (4 * text.hidden_size + 2 * heads + 3 * text.intermediate_size) * size
    width += 2 * text.hidden_size * VALUE_BYTES
    shared = text.attention_heads // max(1, text.key_value_heads)
    mask = prompt * limits.max_seq_len * (1 + shared * (1 + size))
    logits = limits.max_batch_size * beams + _LOGITS_ROWS
    computed = rows * width + mask + logits * text.vocabulary_size * (size + VALUE_BYTES)
    answers = limits.max_batch_size * text.vocabulary_size
    sampled = min(answers, max(_SAMPLED_AT_ONCE, text.vocabulary_size))
    return computed + sampled * _SAMPLING_BYTES
