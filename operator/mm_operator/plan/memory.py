"""Bytes of one replica, term by term, and the verdict on the memory the user allows."""

from dataclasses import dataclass

from mm_api.documents.build_plan import EngineLimits
from mm_api.documents.model_facts import EncoderFacts, ModelFacts, TextFacts
from mm_api.documents.serving_plan import MemoryPools
from mm_api.v1alpha1.quantity import bytes_of
from mm_operator.errors import SpecError

DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}

PROCESS_BYTES = 704 << 20
"""What the processes take beside the plan's terms: measured 43 MB for the server, 38 MB for each of
three small stubs, 28 MB for each of four of `tensorrt_llm_bls`, 386 MB for the one with torch,
rounded up. Requested, but no part of the verdict:
the libraries of another image may take less."""

ENCODER_PROCESS_BYTES = 192 << 20
"""The same of an encoder's pod with ONNX Runtime: measured 39 MB for the server, 103 MB for its one
stub, 37 MB for what supervises them. With another vision engine it loads torch as well."""

_VISION_DTYPE_BYTES = 4
_BLOCK_MATRICES = 12
"""A transformer block holds 4 h^2 weights of attention and 8 h^2 of its perceptron."""

_ACTIVATION_COPIES = 8
"""Activations of a running block: its input, three projections, four times the width inside."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Planned bytes of one replica. `pools` hold the CUDA pool, which takes no host memory."""

    weights_bytes: int
    vision_bytes: int
    prompt_table_bytes: int
    kv_cache_bytes: int
    pools: MemoryPools
    feature_cache_bytes: int = 0

    @property
    def host_bytes(self) -> int:
        """Return what the server container needs of host memory when no GPU holds the weights.

        Shared memory and the pinned pool are bounds that are rarely reached, so they are left out.
        """
        return (
            self.weights_bytes
            + self.vision_bytes
            + self.prompt_table_bytes
            + self.kv_cache_bytes
            + self.feature_cache_bytes
        )


def footprint(
    *,
    facts: ModelFacts,
    dtype: str,
    limits: EngineLimits,
    vision_batch: int,
    pools: MemoryPools,
    feature_cache_bytes: int = 0,
) -> Footprint:
    """Return the planned bytes, with caches for full batches of the longest sequences."""
    size = DTYPE_BYTES[dtype]
    text = facts.text
    return Footprint(
        weights_bytes=facts.parameters * size + _adapter_bytes(facts, size),
        vision_bytes=_vision_bytes(facts, vision_batch),
        prompt_table_bytes=limits.max_multimodal_len * text.hidden_size * size,
        kv_cache_bytes=2
        * text.key_value_heads
        * text.head_size
        * size
        * (text.layers * limits.max_seq_len + _crossing(text) * (limits.max_encoder_input_len or 0))
        * limits.max_batch_size,
        pools=pools,
        feature_cache_bytes=feature_cache_bytes,
    )


def check_fits(planned: Footprint, memory_limit: int | str | None) -> None:
    """Check the plan against the server container's memory limit.

    Raises:
        SpecError: the terms of the plan alone are above the limit.
    """
    if memory_limit is None or planned.host_bytes <= bytes_of(memory_limit):
        return
    raise SpecError(
        reason="DoesNotFit",
        path="spec.runtime.resources.limits.memory",
        message=f"{memory_limit} is too little: weights {planned.weights_bytes:,}, vision "
        f"{planned.vision_bytes:,}, prompt table {planned.prompt_table_bytes:,}, KV cache "
        f"{planned.kv_cache_bytes:,} and feature cache {planned.feature_cache_bytes:,} bytes are "
        f"{planned.host_bytes:,} together; raise the limit, or lower spec.engine.maxBatchSize, "
        "spec.engine.maxSeqLen or spec.vision.featureCacheBytes",
    )


def _adapter_bytes(facts: ModelFacts, size: int) -> int:
    """Return a bound of what all LoRA adapters hold: each as if it had every module and rank."""
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


def _crossing(text: TextFacts) -> int:
    """Return the layers that keep keys and values of an encoder; of an encoder-decoder all."""
    named = text.cross_attention_layers
    return text.layers if named is None else named


def _vision_bytes(facts: ModelFacts, batch: int) -> int:
    """Return weights and activations of the vision encoder, which is exported as float32."""
    vision = facts.vision
    if vision is None:
        return 0
    width = vision.hidden_size
    weights = _BLOCK_MATRICES * width * width * vision.layers
    positions = (vision.image_size // vision.patch_size) ** 2 + 1
    activations = batch * positions * width * _ACTIVATION_COPIES
    return (weights + activations) * _VISION_DTYPE_BYTES
