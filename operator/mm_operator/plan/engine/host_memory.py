"""Bytes of host memory of one replica where no GPU holds the weights, term by term."""

from mm_api.documents.build_plan import EngineLimits
from mm_api.documents.model_facts import EncoderFacts, ModelFacts, TextFacts
from mm_api.documents.model_plan import HostMemory
from mm_api.documents.serving_plan import MemoryPools
from mm_api.dtypes import DTYPE_BYTES
from mm_api.families.family import Kind
from mm_api.vision_runs import SCORE_COPIES, entries_of_a_run, score_bytes
from mm_operator.plan.engine.container_memory import PROCESS_BYTES, planned_host
from mm_operator.plan.engine.encoders import server_cache_bytes
from mm_operator.plan.engine.limits import Limits
from mm_operator.plan.engine.request import Target

_VISION_DTYPE_BYTES = 4
_BLOCK_MATRICES = 12
"""A transformer block holds 4 h^2 weights of attention and 8 h^2 of its perceptron."""

ACTIVATION_COPIES = 8
"""Activations of a running block: its input, three projections, four times the width inside."""

_SCORE_BYTES = 4 * 4
"""Size of a score, a bound where a class of transformers may store them: in float32 with their
mask, their softmax and a temporary of each."""

_OWN_TOWERS = 3
"""Estimates more for an unknown class's tower. Chosen: no record says how it cuts up images."""

VALUE_BYTES = 4
"""Size of a logit, of a norm's value and of a sum, which are float32."""

_SAMPLED_AT_ONCE = 1 << 20
"""Logits that are sorted at one time (`mm_runtime.reference_engine.choosing`)."""

_SAMPLING_BYTES = 64
"""Memory of each of them: values, places, masses and their sums, and what sorting takes beside."""


def host_memory(target: Target, limits: Limits, dtype: str, pools: MemoryPools) -> HostMemory:
    """Return the planned bytes, with caches for full batches of the longest sequences."""
    facts, spec, engine, size = target.facts, target.spec, limits.engine, DTYPE_BYTES[dtype]
    text = facts.text
    terms = {
        "weights_bytes": facts.parameters * size + adapter_bytes(facts, size),
        "vision_bytes": host_vision_bytes(target, limits.vision_batch),
        "prompt_table_bytes": engine.max_multimodal_len * facts.row_size * size,
        "kv_cache_bytes": cache_bytes(text, engine, size) + kept_bytes(target, limits, dtype),
        "feature_cache_bytes": server_cache_bytes(spec),
    }
    return planned_host(
        target,
        pools,
        terms,
        step_bytes=_step_bytes(target, engine, size),
        # Weights as they are stored, which a class of transformers may hold beside its own.
        loading_bytes=0 if _is_counted(target) else facts.weight_bytes,
        process_bytes=PROCESS_BYTES,
    )


def _step_bytes(target: Target, limits: EngineLimits, size: int) -> int:
    """Return what steps take beside the total."""
    text = target.facts.text
    computed = computed_bytes(target, limits, size)
    if _is_counted(target):
        return computed
    # A class of transformers makes longer keys and values of copies.
    computed += cache_bytes(text, limits, size)
    computed += _scores(text.attention_heads, limits.max_input_len, limits)
    encoder, read = target.facts.encoder, limits.max_encoder_input_len
    if encoder is not None and read:
        heads = encoder.attention_heads * encoder.head_size
        inside = encoder.hidden_size + heads + encoder.intermediate_size
        computed += read * inside * ACTIVATION_COPIES * VALUE_BYTES
        computed += limits.max_batch_size * read * encoder.hidden_size * VALUE_BYTES
        computed += _scores(encoder.attention_heads, read, limits)
    if not target.family.has_tower:
        computed += _OWN_TOWERS * host_vision_bytes(target, 1)
    return computed


def computed_bytes(target: Target, limits: EngineLimits, size: int) -> int:
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
    logits = limits.max_batch_size * text.vocabulary_size
    computed = rows * width + mask + logits * (size + VALUE_BYTES)
    sampled = min(logits, max(_SAMPLED_AT_ONCE, text.vocabulary_size))
    return computed + sampled * _SAMPLING_BYTES


def _scores(heads: int, rows: int, limits: EngineLimits) -> int:
    return heads * rows * (limits.max_seq_len + (limits.max_encoder_input_len or 0)) * _SCORE_BYTES


def _is_counted(target: Target) -> bool:
    family = target.family
    return family.kind is Kind.PROMPT_TABLE and family.has_tower


def cache_bytes(text: TextFacts, limits: EngineLimits, size: int) -> int:
    """Return keys and values of full batches of the longest sequences, in elements of `size`."""
    tokens = text.layers * limits.max_seq_len
    tokens += _cross_attention_layers(text) * (limits.max_encoder_input_len or 0)
    return 2 * text.key_value_heads * text.head_size * size * tokens * limits.max_batch_size


def kept_bytes(target: Target, limits: Limits, dtype: str) -> int:
    """Return the bytes for keys and values of earlier requests; 0: none are kept."""
    if not target.spec.engine.kv_cache.reuse:
        return 0
    return cache_bytes(target.facts.text, limits.engine, DTYPE_BYTES[dtype])


def adapter_bytes(facts: ModelFacts, size: int) -> int:
    """Return a bound of what LoRA adapters hold: each counts with every module and rank."""
    if facts.lora is None:
        return 0
    numbers = 0
    for engine, modules in facts.lora.modules.items():
        stack: TextFacts | EncoderFacts = facts.text
        if engine == "encoder" and facts.encoder:
            stack = facts.encoder
        heads = stack.attention_heads * stack.head_size
        widest = max(stack.hidden_size, stack.intermediate_size, heads)
        # Two matrices a module: from its input down to the rank, from there up to its output.
        numbers += stack.layers * len(modules) * 2 * widest * facts.lora.rank
    return len(facts.lora.adapters) * numbers * size


def _cross_attention_layers(text: TextFacts) -> int:
    named = text.cross_attention_layers
    return text.layers if named is None else named


def host_vision_bytes(target: Target, batch: int) -> int:
    """Return weights, activations and scores of the vision encoder, exported as float32."""
    vision, family = target.facts.vision, target.family
    if vision is None:
        return 0
    width, engine = vision.hidden_size, target.spec.vision.engine
    # Where the checkpoint's own class encodes, they are among the language model's.
    weights = _BLOCK_MATRICES * width * width * vision.layers if family.has_tower else 0
    together = entries_of_a_run(family, vision, engine, batch)
    activations = together * family.layout.positions_per_tile(vision) * width * ACTIVATION_COPIES
    scores = together * SCORE_COPIES * score_bytes(family, vision, engine)
    return (weights + activations) * _VISION_DTYPE_BYTES + scores


def stored_scores(target: Target) -> int:
    """Return what the scores of the largest image take, where another engine stores none."""
    vision, family = target.facts.vision, target.family
    if vision is None or score_bytes(family, vision, "Torch"):
        return 0
    return SCORE_COPIES * score_bytes(family, vision, target.spec.vision.engine)
