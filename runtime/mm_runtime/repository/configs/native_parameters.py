"""PURE: the parameters of TensorRT-LLM's own backend, every one of its template with a value.

Names: `inflight_batcher_llm/tensorrt_llm/config.pbtxt` of tensorrtllm_backend v0.19.0 (the newest
template has the same set). What values mean: `triton_backend/inflight_batcher_llm/src/
model_instance_state.cc` of TensorRT-LLM. It reads each one by itself and takes its default for one
that it cannot parse, so "" means "the backend's default" wherever no number says the same.
"""

from collections.abc import Mapping

from mm_api.contract import LORA_HOST_BYTES
from mm_runtime.repository.model_config import Parameter, strings
from mm_runtime.repository.values import RepositoryValues, TrtllmValues

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
        enable_chunked_context=False,  # the plan keeps maxNumTokens above the longest prompt
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
