"""Bytes of host memory of one replica where no GPU holds the weights, term by term."""

from mm_api.documents.build_plan import EngineLimits
from mm_api.documents.model_facts import EncoderFacts, ModelFacts, TextFacts
from mm_api.documents.model_plan import HostMemory
from mm_api.documents.serving_plan import MemoryPools
from mm_api.dtypes import DTYPE_BYTES
from mm_api.families.family import MOST_RECORDINGS, Kind
from mm_api.v1alpha1.quantity import bytes_of
from mm_api.vision_runs import SCORE_COPIES, entries_of_a_run, score_bytes
from mm_operator.plan.engine.encoders import server_cache_bytes
from mm_operator.plan.engine.joined_scales import (
    joined_bytes,
    projecting_bytes,
    projector_parameters,
)
from mm_operator.plan.engine.limits import Limits
from mm_operator.plan.engine.step_memory import step_bytes
from mm_operator.plan.engine.target import Target

PROCESS_BYTES = 704 << 20
"""What the processes take beside the plan's terms: measured 43 MB for the server, 38 MB for each of
three small stubs, 28 MB for each of four of `tensorrt_llm_bls`, 386 MB for the one with torch,
rounded up. Requested, but no part of the verdict:
the libraries of another image may take less."""

ENCODER_PROCESS_BYTES = 192 << 20
"""The same of an encoder's pod with ONNX Runtime: measured 39 MB for the server, 103 MB for its one
stub, 37 MB for what supervises them. With another vision engine it loads torch as well."""

_MARGIN_PART = 8
"""An eighth of all of it for what no term counts, such as fragments that allocators keep. Chosen,
not measured: under 16 clients the tiny model's server took 637 MiB at most, of a limit of 1,485."""

_VISION_DTYPE_BYTES = 4
_FRAME_SAMPLES = 160
"""hop_length of WhisperFeatureExtractor."""

_BLOCK_MATRICES = 12
"""A transformer block holds 4 h^2 weights of attention and 8 h^2 of its perceptron."""

_ACTIVATION_COPIES = 8
"""Activations of a running block: its input, three projections, four times the width inside."""


def host_memory(target: Target, limits: Limits, dtype: str) -> HostMemory:
    """Return the planned bytes, with caches for full batches of the longest sequences.

    Shared memory and the pinned pool are bounds that are rarely reached, so they are left out.
    """
    facts, spec, engine, size = target.facts, target.spec, limits.engine, DTYPE_BYTES[dtype]
    text = facts.text
    terms = {
        "weights_bytes": facts.parameters * size + adapter_bytes(facts, size),
        "vision_bytes": host_vision_bytes(target, limits.vision_batch)
        + _audio_bytes(target, engine),
        "prompt_table_bytes": engine.max_multimodal_len * facts.row_size * size,
        "kv_cache_bytes": cache_bytes(text, engine, size) + kept_bytes(target, limits, dtype),
        "feature_cache_bytes": server_cache_bytes(spec),
    }
    return HostMemory(
        **terms,
        total_bytes=sum(terms.values()),
        limit_bytes=spec.runtime.resources.memory_limit,
        step_bytes=_step_bytes(target, engine, size),
    )


def memory_limit(needed: int, pools: MemoryPools) -> int:
    """Return the memory limit of a container without a GPU: every bound reached at one time.

    Args:
        needed: the plan's terms, and what the processes take.
        pools: of its server. Files in /dev/shm count to the container that writes them, and without
            a GPU outputs lie in host memory.
    """
    full = needed + pools.cuda_bytes + pools.pinned_bytes + pools.shm_bytes
    return full + full // _MARGIN_PART


def _step_bytes(target: Target, limits: EngineLimits, size: int) -> int | None:
    """Return what steps take beside the total, which holds the cache of one beam.

    None: not every term is planned, as for encoder-decoders, audio and a checkpoint's own class.
    """
    family, facts, beams = target.family, target.facts, limits.max_beam_width
    planned = family.kind is Kind.PROMPT_TABLE and family.has_tower and facts.audio is None
    if not planned:
        return None
    others = (beams - 1) * cache_bytes(facts.text, limits, size)
    return step_bytes(target, limits, size, beams=beams) + others


def cache_bytes(text: TextFacts, limits: EngineLimits, size: int) -> int:
    """Return keys and values of full batches of the longest sequences, in elements of `size`."""
    tokens = text.layers * limits.max_seq_len
    tokens += _cross_attention_layers(text) * (limits.max_encoder_input_len or 0)
    return 2 * text.key_value_heads * text.head_size * size * tokens * limits.max_batch_size


def kept_bytes(target: Target, limits: Limits, dtype: str) -> int:
    """Return the bytes for keys and values of earlier requests; 0: none are kept."""
    cache = target.spec.engine.kv_cache
    if not cache.reuse:
        return 0
    if cache.reuse_bytes is not None:
        return bytes_of(cache.reuse_bytes)
    return cache_bytes(target.facts.text, limits.engine, DTYPE_BYTES[dtype])


def adapter_bytes(facts: ModelFacts, size: int) -> int:
    """Return what LoRA adapters hold: the checkpoint's own, and a bound of the spec's.

    Each of those counts as if it had every module and rank.
    """
    own = (facts.own_adapter_parameters or 0) * size
    if facts.lora is None:
        return own
    numbers = 0
    for engine, modules in facts.lora.modules.items():
        stack: TextFacts | EncoderFacts = facts.text
        if engine == "encoder" and facts.encoder:
            stack = facts.encoder
        heads = stack.attention_heads * stack.head_size
        widest = max(stack.hidden_size, stack.intermediate_size, heads)
        # Two matrices a module: from its input down to the rank, from there up to its output.
        numbers += stack.layers * len(modules) * 2 * widest * facts.lora.rank
    return own + len(facts.lora.adapters) * numbers * size


def _cross_attention_layers(text: TextFacts) -> int:
    """Return the layers that keep keys and values of an encoder; of an encoder-decoder all."""
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
    activations = together * family.positions_per_tile(vision) * width * _ACTIVATION_COPIES
    scores = together * SCORE_COPIES * score_bytes(family, vision, engine)
    beside = joined_bytes(target) + projecting_bytes(target)
    projector = projector_parameters(target)
    return (weights + projector + activations) * _VISION_DTYPE_BYTES + scores + beside


def _audio_bytes(target: Target, limits: EngineLimits) -> int:
    """Return what recordings of one request take on their way through the audio tower.

    They are read together, as many as a prompt has room for; in front of the tower's blocks each
    has a hundred frames a second, and positions see each other by a mask.
    """
    audio, count = target.facts.audio, target.family.audio_features
    if audio is None or count is None:
        return 0
    room = limits.max_input_len * audio.most_samples // count(audio.most_samples)
    frames = min(MOST_RECORDINGS * audio.most_samples, room) // _FRAME_SAMPLES
    values = frames * audio.hidden_size * _ACTIVATION_COPIES
    return (values + MOST_RECORDINGS * audio.positions**2) * _VISION_DTYPE_BYTES


def stored_scores(target: Target) -> int:
    """Return what the scores of the largest image take, where another engine stores none."""
    vision, family = target.facts.vision, target.family
    if vision is None or score_bytes(family, vision, "Torch"):
        return 0
    return SCORE_COPIES * score_bytes(family, vision, target.spec.vision.engine)
