"""Which options of `trtllm-serve --extra_llm_api_options` a spec may set, as tables.

Sources: TorchLlmArgs, KvCacheConfig and CudaGraphConfig of tensorrt_llm/llmapi/llm_args.py in
NVIDIA/TensorRT-LLM, of June 2025 (before 1.0), August 2025 (1.1 candidates), autumn 2025 (1.2
candidates) and of 1.3 candidates; CudaGraphConfig in 1.0.0 by its docs (examples/llm_runtime). What
two of them have is taken to be in the releases between; `since` is the first release by that.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import JsonValue

FIELD: Final = "extraLlmApiOptions"

Option = tuple[str, Any]
"""A dotted name and its value; lists are tuples."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """One option that is merged into the plan's.

    `kind`: switch: true or false, sizes: a list of batch sizes; `names` are values of kind name.
    `since`: the first release that has it. `most`: None: `engine.maxBatchSize`.
    """

    key: str
    kind: Literal["switch", "number", "sizes", "name"]
    since: str = "1.0.0"
    most: int | None = None
    names: tuple[str, ...] = ()


CACHE_TYPE: Final = "kv_cache_config.dtype"
CHUNKED: Final = "enable_chunked_prefill"

ALLOWED: Final[tuple[Allowed, ...]] = (
    # Answers of a stream are made every so many steps.
    Allowed("stream_interval", "number", most=1024),
    Allowed("disable_overlap_scheduler", "switch"),
    Allowed("print_iter_log", "switch"),
    # How long a step waits for more requests.
    Allowed("batch_wait_timeout_ms", "number", since="1.2.0", most=1000),
    # A graph takes up to 200 MB (TorchLlmArgs.cuda_graph_config): none of more than a full batch.
    Allowed("cuda_graph_config.enable_padding", "switch"),
    Allowed("cuda_graph_config.batch_sizes", "sizes"),
    Allowed("cuda_graph_config.max_batch_size", "number"),
    Allowed(CHUNKED, "switch"),
    # Before, it was kv_cache_dtype (pull request 5752 of July 2025, not known to be in 1.0). An
    # unquantized cache becomes FP8, one of the checkpoint's must be the same: see
    # validate_and_set_kv_cache_quant of tensorrt_llm/_torch/pyexecutor/model_engine.py. nvfp4 is
    # refused by the versions of 2025.
    Allowed(CACHE_TYPE, "name", since="1.1.0", names=("auto", "fp8")),
    # Of blocks that engine.kvCache.reuse keeps.
    Allowed("kv_cache_config.enable_partial_reuse", "switch"),
    Allowed("kv_cache_config.copy_on_partial_reuse", "switch"),
)

CHUNKED_CLASSES: Final = frozenset(
    {
        "LlavaNextForConditionalGeneration",
        "Mistral3ForConditionalGeneration",
        "Qwen2VLForConditionalGeneration",
        "Qwen2_5_VLForConditionalGeneration",
        "Qwen3VLForConditionalGeneration",
        "Qwen3VLMoeForConditionalGeneration",
    }
)
"""Classes with a yes below Chunked Prefill in the multimodal table of
docs/source/models/supported-models.md, as it is in 2026 (1.3 candidates). What the table says of
1.0 to 1.2 was not read, so images are refused with it: parts of an image's features, and of
interleaved ones (pull requests 6843 and 12944), came in between."""

_RANKS: Final = "engine.parallelism"
OWNED: Final[Mapping[str, str]] = {
    "model": "model.source",
    "tokenizer": "model.source",
    "tokenizer_mode": "model.source",
    "revision": "model.source",
    "tokenizer_revision": "model.source",
    "skip_tokenizer_init": "model.source",
    "load_format": "model.source",
    "trust_remote_code": "model.trustRemoteCode",
    "backend": "engine.backend",
    "dtype": "engine.dtype",
    "max_batch_size": "engine.maxBatchSize",
    "max_num_tokens": "engine.maxNumTokens",
    "max_seq_len": "engine.maxSeqLen",
    "max_input_len": "engine.maxInputLen",
    "max_beam_width": "engine.maxBeamWidth",
    "tensor_parallel_size": f"{_RANKS}.tensor",
    "pipeline_parallel_size": f"{_RANKS}.pipeline",
    "moe_tensor_parallel_size": f"{_RANKS}.expert",
    "moe_expert_parallel_size": f"{_RANKS}.expert",
    "gpus_per_node": "runtime.gpu.count",
    "quant_config": "engine.quantization",
    "kv_cache_config.free_gpu_memory_fraction": "engine.kvCache.freeGpuMemoryFraction",
    "kv_cache_config.max_tokens": "engine.kvCache.freeGpuMemoryFraction",
    "kv_cache_config.enable_block_reuse": "engine.kvCache.reuse",
    "kv_cache_config.cross_kv_cache_fraction": "engine.kvCache.crossFraction",
    "guided_decoding_backend": "engine.guidedDecoding",
    "enable_lora": "engine.lora",
    "lora_config": "engine.lora",
    "peft_cache_config": "engine.lora",
}
"""Options that the plan sets or leaves alone, with the field that decides it."""

_MEMORY: Final = "changes memory that the plan does not count"
_DISAGGREGATED: Final = "is for prefill and decode in pods of their own, which this version has not"
_METRICS: Final = "is always on: probes, metrics and autoscaling read what it writes"
NAMED: Final[Mapping[str, str]] = {
    "speculative_config": "is speculative decoding, and the memory of a draft is not planned",
    "decoding_config": "is speculative decoding, and the memory of a draft is not planned",
    "cache_transceiver_config": _DISAGGREGATED,
    "kv_connector_config": _DISAGGREGATED,
    "mm_encoder_only": _DISAGGREGATED,
    "enable_iter_perf_stats": _METRICS,
    "return_perf_metrics": _METRICS,
    "enable_attention_dp": _MEMORY,
    "context_parallel_size": "splits prompts over GPUs, which this version does not plan",
    "kv_cache_config.host_cache_size": "moves blocks to host memory, which is not planned",
    "kv_cache_config.tokens_per_block": _MEMORY,
    "kv_cache_config.max_attention_window": _MEMORY,
    "attn_backend": "is chosen by the model's class, and not every one computes each class",
    "moe_config": "names kernels that not every GPU and version has",
    "scheduler_config": "may pause requests, whose images are gone when they begin again",
    "torch_compile_config": _MEMORY,
}
"""Options that upstream has and that are refused, with the reason."""


def flattened(options: Mapping[str, Any], above: str = "") -> tuple[Option, ...]:
    """Return options by dotted names, in the order of the names; an empty group is one, too."""
    found: list[Option] = []
    for name, value in sorted(options.items()):
        if isinstance(value, dict) and value:
            found += flattened(value, f"{above}{name}.")
        else:
            found.append((f"{above}{name}", _frozen(value)))
    return tuple(found)


def merged(options: Mapping[str, JsonValue], extra: Sequence[Option]) -> dict[str, JsonValue]:
    """Return the plan's options with the extra ones, which win, at their places."""
    result: dict[str, Any] = deepcopy(dict(options))
    for key, value in extra:
        *groups, name = key.split(".")
        place = result
        for group in groups:
            # The plan may have switched a group off: null.
            place[group] = place.get(group) or {}
            place = place[group]
        place[name] = list(value) if isinstance(value, tuple) else value
    return result


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((name, _frozen(one)) for name, one in value.items())
    return tuple(_frozen(one) for one in value) if isinstance(value, list) else value
