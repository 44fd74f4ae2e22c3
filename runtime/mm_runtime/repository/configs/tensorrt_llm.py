"""PURE: `tensorrt_llm`: token ids and prompt embedding table -> tokens, many responses a request.

Inputs that the engine behind it does not know are part of the interface all the same: a client of
the C++ backend may send them, and the model says what it cannot do.

Names: `inflight_batcher_llm/tensorrt_llm/config.pbtxt` of tensorrtllm_backend v0.19.0 (the newest
template has the same set). What values mean: `triton_backend/inflight_batcher_llm/src/
model_instance_state.cc` of TensorRT-LLM. It reads each one by itself and takes its default for one
that it cannot parse, so "" means "the backend's default" wherever no number says the same.
"""

from collections.abc import Mapping

from mm_api.contract import LORA_HOST_BYTES
from mm_runtime.repository.configs import gateway_inputs
from mm_runtime.repository.configs.scheduling import batching
from mm_runtime.repository.model_config import (
    DataType,
    Input,
    ModelConfig,
    Output,
    Parameter,
    optional,
    output,
    python_model,
    scalar,
    strings,
)
from mm_runtime.repository.values import RepositoryValues, TrtllmValues
from mm_runtime.serving.sampling_table import OWN, RENAMED
from mm_runtime.serving.tensor_names import HANDED_OVER_ON_GPU

EXECUTOR_WORKER = "/opt/tritonserver/backends/tensorrtllm/trtllmExecutorWorker"
DEFAULT = ""


def native_parameters(values: RepositoryValues, native: TrtllmValues) -> Mapping[str, Parameter]:
    """Return name -> value of the model `tensorrt_llm`."""
    beams, cache, table = values.limits.max_beam_width, native.kv_cache, native.tokenizer_info
    cross = cache.cross_fraction
    return strings(
        FORCE_CPU_ONLY_INPUT_TENSORS="no",
        tokenizer_dir=str(values.engine_dir / "processor"),
        gpt_model_path=str(native.engines.get("llm") or native.engines["decoder"]),
        encoder_model_path=str(native.engines.get("encoder", DEFAULT)),
        executor_worker_path=EXECUTOR_WORKER,
        gpu_device_ids=DEFAULT,  # one for each rank, in order
        participant_ids=DEFAULT,
        num_nodes=1,
        gpt_model_type="inflight_fused_batching",
        batch_scheduler_policy="guaranteed_no_evict",  # no request is paused for another
        max_beam_width=beams,
        decoding_mode="top_k_top_p" if beams == 1 else "beam_search",
        max_attention_window_size=values.limits.max_seq_len,
        sink_token_length=0,
        enable_chunked_context=bool(values.serving.enable_chunked_context),
        exclude_input_in_output=True,  # clients get the answer; the prompt holds image ids
        normalize_log_probs=False,  # over the vocabulary: of a greedy token it would be 0
        kv_cache_free_gpu_mem_fraction=str(cache.free_gpu_memory_fraction),
        cross_kv_cache_fraction=DEFAULT if cross is None else str(cross),
        max_tokens_in_paged_kv_cache=DEFAULT,  # the fraction says it
        enable_kv_cache_reuse=bool(cache.reuse),
        kv_cache_host_memory_bytes=0,
        kv_cache_onboard_blocks=True,
        gpu_weights_percent="1.0",
        lora_cache_optimal_adapter_size=8,
        lora_cache_max_adapter_size=64,
        lora_cache_gpu_memory_fraction="0.05",
        lora_cache_host_memory_bytes=LORA_HOST_BYTES,
        lora_prefetch_dir=DEFAULT if native.adapters is None else str(native.adapters),
        # A cancelled request frees its slot within a second.
        cancellation_check_period_ms=100,
        stats_check_period_ms=100,
        iter_stats_max_iterations=1000,
        request_stats_max_iterations=0,
        multi_block_mode=True,
        enable_context_fmha_fp32_acc=False,
        cuda_graph_mode=False,
        cuda_graph_cache_size=0,
        # The next two are read without a default: a model that lacks one does not load.
        guided_decoding_backend=DEFAULT if table is None else "xgrammar",
        xgrammar_tokenizer_info_path=DEFAULT if table is None else str(table),
        # No plan has speculative decoding.
        lookahead_window_size=0,
        lookahead_ngram_size=0,
        lookahead_verification_set_size=0,
        medusa_choices=DEFAULT,
        eagle_choices=DEFAULT,
        speculative_decoding_fast_logits=False,
    )


NAME = "tensorrt_llm"


SALT = "cache_salt"
OWN_INPUTS = (
    optional(SALT, DataType.STRING, 1),
    *(optional(one.name, DataType[one.type], 1) for one in OWN),
    optional(gateway_inputs.LIKELIEST, DataType.INT32, 1),
)
RAW_IMAGES = (
    optional("prompt_text", DataType.STRING, 1),
    optional("raw_images", DataType.UINT8, -1, -1, -1, -1),
    optional("raw_image_sizes", DataType.INT64, -1, 2),
)
"""What the checkpoint's own processor reads, where it runs in this process."""

LIKELIEST = (
    output("likeliest_ids", DataType.INT32, -1, -1),
    output("likeliest_values", DataType.FP32, -1, -1),
)
REUSED = output("reused_tokens", DataType.INT32, 1)
"""Tokens of a prompt that were known from earlier requests."""

OWN_OUTPUTS = frozenset({"previous_ids", "is_last", *(one.name for one in (*LIKELIEST, REUSED))})
"""Not upstream's: for postprocessing and the gateway, see there. TensorRT-LLM's own backend has
none of them."""


def _inputs(table_type: DataType, prompt_type: DataType) -> tuple[Input, ...]:
    return (
        optional("input_ids", DataType.INT32, -1, ragged=True),
        optional("encoder_input_features", table_type, -1, -1, ragged=True),
        scalar("encoder_output_lengths", DataType.INT32),
        scalar("input_lengths", DataType.INT32, required=True),
        scalar("request_output_len", DataType.INT32, required=True),
        scalar("num_return_sequences", DataType.INT32),
        optional("draft_input_ids", DataType.INT32, -1, ragged=True),
        optional("decoder_input_ids", DataType.INT32, -1, ragged=True),
        scalar("decoder_input_lengths", DataType.INT32),
        optional("draft_logits", DataType.FP32, -1, -1, ragged=True),
        scalar("draft_acceptance_threshold", DataType.FP32),
        scalar("end_id", DataType.INT32),
        scalar("pad_id", DataType.INT32),
        optional("stop_words_list", DataType.INT32, 2, -1, ragged=True),
        optional("bad_words_list", DataType.INT32, 2, -1, ragged=True),
        optional("embedding_bias", DataType.FP32, -1, ragged=True),
        scalar("beam_width", DataType.INT32),
        scalar("temperature", DataType.FP32),
        scalar("runtime_top_k", DataType.INT32),
        scalar("runtime_top_p", DataType.FP32),
        scalar("runtime_top_p_min", DataType.FP32),
        scalar("runtime_top_p_decay", DataType.FP32),
        scalar("runtime_top_p_reset_ids", DataType.INT32),
        scalar("len_penalty", DataType.FP32),
        scalar("early_stopping", DataType.BOOL),
        scalar("repetition_penalty", DataType.FP32),
        scalar("min_length", DataType.INT32),
        scalar("min_tokens", DataType.INT32),  # the newer name
        scalar("beam_search_diversity_rate", DataType.FP32),
        scalar("presence_penalty", DataType.FP32),
        scalar("frequency_penalty", DataType.FP32),
        scalar("random_seed", DataType.UINT64),
        scalar("seed", DataType.UINT64),  # the newer name
        scalar("return_log_probs", DataType.BOOL),
        scalar("return_context_logits", DataType.BOOL),
        scalar("return_generation_logits", DataType.BOOL),
        scalar("return_perf_metrics", DataType.BOOL),
        scalar("exclude_input_in_output", DataType.BOOL),
        scalar("stop", DataType.BOOL),
        scalar("streaming", DataType.BOOL),
        optional("prompt_embedding_table", prompt_type, -1, -1, ragged=True),
        optional("prompt_table_extra_ids", DataType.UINT64, -1, ragged=True),
        scalar("prompt_vocab_size", DataType.INT32),
        optional("cross_attention_mask", DataType.BOOL, -1, -1, ragged=True),
        optional("mrope_rotary_cos_sin", DataType.FP32, -1),
        optional("mrope_position_deltas", DataType.INT64, 1),
        scalar("lora_task_id", DataType.UINT64),
        optional("lora_weights", DataType.FP16, -1, -1, ragged=True),
        optional("lora_config", DataType.INT32, -1, 3, ragged=True),
        optional("context_phase_params", DataType.UINT8, -1, ragged=True),
        optional("skip_cross_attn_blocks", DataType.BOOL, 1, ragged=True),
        optional("retention_token_range_starts", DataType.INT32, -1, ragged=True),
        optional("retention_token_range_ends", DataType.INT32, -1, ragged=True),
        optional("retention_token_range_priorities", DataType.INT32, -1, ragged=True),
        optional("retention_token_range_durations_ms", DataType.INT32, -1, ragged=True),
        optional("retention_decode_priority", DataType.INT32, 1, ragged=True),
        optional("retention_decode_duration_ms", DataType.INT32, 1, ragged=True),
        optional("guided_decoding_guide_type", DataType.STRING, 1, ragged=True),
        optional("guided_decoding_guide", DataType.STRING, 1, ragged=True),
        optional("lookahead_window_size", DataType.INT32, 1, ragged=True),
        optional("lookahead_ngram_size", DataType.INT32, 1, ragged=True),
        optional("lookahead_verification_set_size", DataType.INT32, 1, ragged=True),
    )


MEASURED = (
    output("kv_cache_alloc_new_blocks", DataType.INT32, 1),
    output("kv_cache_reused_blocks", DataType.INT32, 1),
    output("kv_cache_alloc_total_blocks", DataType.INT32, 1),
    output("arrival_time_ns", DataType.INT64, 1),
    output("first_scheduled_time_ns", DataType.INT64, 1),
    output("first_token_time_ns", DataType.INT64, 1),
    output("last_token_time_ns", DataType.INT64, 1),
    output("acceptance_rate", DataType.FP32, 1),
    output("total_accepted_draft_tokens", DataType.INT32, 1),
    output("total_draft_tokens", DataType.INT32, 1),
)
"""What the engine measured of a request."""

OUTPUTS: tuple[Output, ...] = (
    output("output_ids", DataType.INT32, -1, -1),
    output("sequence_length", DataType.INT32, -1),
    output("previous_ids", DataType.INT32, -1, -1),
    output("is_last", DataType.BOOL, 1),
    output("cum_log_probs", DataType.FP32, -1),
    output("output_log_probs", DataType.FP32, -1, -1),
    output("context_logits", DataType.FP32, -1, -1),
    output("generation_logits", DataType.FP32, -1, -1, -1),
    output("batch_index", DataType.INT32, 1),
    output("sequence_index", DataType.INT32, 1),
    *LIKELIEST,
    REUSED,
    output("context_phase_params", DataType.UINT8, -1),
    *MEASURED,
)


def absent_inputs(values: RepositoryValues) -> frozenset[str]:
    """Return the inputs above that the backend's version does not know."""
    if values.trtllm is None:
        return frozenset()
    return frozenset(RENAMED if values.trtllm.newer_names else RENAMED.values())


def config(values: RepositoryValues) -> ModelConfig:
    """Return the model's configuration: the Reference engine's, or TensorRT-LLM's own backend's.

    The backend takes the bound of the queue for its executor's too: requests beyond those that run.
    """
    absent = absent_inputs(values)
    inputs = tuple(
        one for one in _inputs(values.table_type, values.prompt_type) if one.name not in absent
    )
    if values.own_tensors:
        inputs = (*inputs, *OWN_INPUTS, *(RAW_IMAGES if values.reads_raw_images else ()))
    if values.announces_features:
        inputs = (*inputs, optional(HANDED_OVER_ON_GPU, DataType.BOOL, 1))
    queued = batching(values, delayed=True)
    if values.trtllm is None:
        own = strings(
            max_beam_width=values.limits.max_beam_width,
            max_queue_size=values.serving.max_queue_size,
            gpt_model_path=str(values.engine_dir / "llm"),
            exclude_input_in_output=True,
        )
        if values.announces_features:  # else Triton copies them to host memory on their way
            own |= strings(FORCE_CPU_ONLY_INPUT_TENSORS="no")
        backend, parameters = "python", values.shared_parameters() | own
        outputs = OUTPUTS
    else:
        backend, parameters = "tensorrtllm", dict(native_parameters(values, values.trtllm))
        outputs = tuple(one for one in OUTPUTS if one.name not in OWN_OUTPUTS)
        queued.default_queue_policy.max_queue_size = values.serving.max_queue_size
    return python_model(
        NAME,
        backend=backend,
        max_batch_size=values.limits.max_batch_size,
        inputs=inputs,
        outputs=outputs,
        decoupled=True,
        batching=queued,
        parameters=parameters,
    )
