"""What TensorRT-LLM's backend takes, by version: tensors and parameters of upstream's template.

`tests/mm_runtime/repository/upstream_v0.19.0.json` has the tensors of that tag. Templates before it
have the same names for every input that is sent here; what differs later was read in the newest
template of `triton_backend/all_models/inflight_batcher_llm/tensorrt_llm/config.pbtxt`.
"""

import json
from pathlib import Path
from typing import Any

UPSTREAM = Path(__file__).parents[2] / "mm_runtime" / "repository" / "upstream_v0.19.0.json"
PARAMETERS = """
    max_beam_width FORCE_CPU_ONLY_INPUT_TENSORS gpt_model_type gpt_model_path encoder_model_path
    max_tokens_in_paged_kv_cache max_attention_window_size sink_token_length
    batch_scheduler_policy kv_cache_free_gpu_mem_fraction cross_kv_cache_fraction
    kv_cache_host_memory_bytes kv_cache_onboard_blocks exclude_input_in_output
    cancellation_check_period_ms stats_check_period_ms iter_stats_max_iterations
    request_stats_max_iterations enable_kv_cache_reuse normalize_log_probs
    enable_chunked_context gpu_device_ids participant_ids num_nodes
    lora_cache_optimal_adapter_size lora_cache_max_adapter_size lora_cache_gpu_memory_fraction
    lora_cache_host_memory_bytes lora_prefetch_dir decoding_mode executor_worker_path
    lookahead_window_size lookahead_ngram_size lookahead_verification_set_size medusa_choices
    eagle_choices gpu_weights_percent enable_context_fmha_fp32_acc multi_block_mode
    cuda_graph_mode cuda_graph_cache_size speculative_decoding_fast_logits tokenizer_dir
    guided_decoding_backend xgrammar_tokenizer_info_path
"""

RENAMED = {"min_length": "min_tokens", "random_seed": "seed"}
"""Inputs that have another name from 0.20 on."""

FLAG = {"data_type": "TYPE_BOOL", "dims": [1], "optional": True, "reshape": []}
ADDED_INPUTS = [
    {"name": name, **FLAG} for name in ("return_num_input_tokens", "return_num_output_tokens")
]
ADDED_OUTPUTS = [
    {"name": name, "data_type": "TYPE_INT32", "dims": [1]}
    for name in ("num_input_tokens", "num_output_tokens")
]
TABLE = "${prompt_embedding_table_data_type}"
"""From 0.20 on a key of the template; before, the table is FP16."""


def template(version: str) -> dict[str, Any]:
    """Return what a version's backend takes: `inputs`, `outputs` and `parameters`."""
    found = json.loads(UPSTREAM.read_text())["tensorrt_llm"]
    inputs, outputs = found["inputs"], found["outputs"]
    if tuple(int(part) for part in version.split(".")[:2]) >= (0, 20):
        inputs = [{**one, "name": RENAMED.get(one["name"], one["name"])} for one in inputs]
        for one in inputs:
            if one["name"] == "prompt_embedding_table":
                one["data_type"] = TABLE
        inputs, outputs = inputs + ADDED_INPUTS, outputs + ADDED_OUTPUTS
    return {"inputs": inputs, "outputs": outputs, "parameters": PARAMETERS.split()}
