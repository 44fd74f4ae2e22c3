"""Types and choices of the options, as upstream's parsers declare them.

Sources, by their paths in TensorRT-LLM's repository: `tensorrt_llm/commands/build.py`,
`tensorrt_llm/plugin/plugin.py`, `examples/*/convert_checkpoint.py` (0.20: `examples/models/...`),
`examples/quantization/quantize.py`, `tensorrt_llm/tools/multimodal_builder.py`,
`tensorrt_llm/commands/serve.py`,
`tensorrt_llm/lora_manager.py`, `examples/generate_xgrammar_tokenizer_info.py`.
"""

from typing import Any, Final

Option = dict[str, Any]
"""Arguments of `add_argument` that JSON can hold."""

NUMBER: Final[Option] = {"type": "int"}
TEXT: Final[Option] = {"type": "str"}
SWITCH: Final[Option] = {"action": "store_true"}
ENABLED: Final[Option] = {"choices": ["enable", "disable"]}
PLUGIN: Final[Option] = {"choices": ["auto", "float16", "float32", "bfloat16", "int32", "disable"]}
FP8: Final[Option] = {"choices": ["fp8", "disable"]}
HALF: Final[Option] = {"choices": ["float16", "bfloat16", "disable"]}
FLOATS: Final[Option] = {"choices": ["float16", "bfloat16", "float32"]}
DTYPE: Final[Option] = {"choices": ["auto", "float16", "bfloat16", "float32"]}

_LORA_MODULES = (
    "attn_qkv attn_q attn_k attn_v attn_dense mlp_h_to_4h mlp_4h_to_h mlp_gate cross_attn_qkv"
    " cross_attn_q cross_attn_k cross_attn_v cross_attn_dense moe_h_to_4h moe_4h_to_h moe_gate"
    " moe_router mlp_router"
)

_NUMBERS = (
    "max_batch_size max_input_len max_seq_len max_decoder_seq_len max_beam_width max_num_tokens"
    " opt_num_tokens max_encoder_input_len max_prompt_embedding_table_size max_multimodal_len"
    " workers max_lora_rank max_draft_len tokens_per_block auto_parallel gpus_per_node"
)
_SWITCHES = (
    "strip_plan weight_sparsity weight_streaming fast_build enable_debug_output dry_run"
    " monitor_memory gather_context_logits gather_generation_logits gather_all_token_logits"
)
_TEXTS = (
    "checkpoint_dir model_config build_config model_cls_file model_cls_name output_dir"
    " paged_kv_cache input_timing_cache output_timing_cache visualize_network cluster_key"
)
_ENABLED = (
    "dora_plugin context_fmha bert_context_fmha_fp32_acc remove_input_padding"
    " use_paged_context_fmha use_fp8_context_fmha fuse_fp4_quant multiple_profiles paged_state"
    " streamingllm norm_quant_fusion reduce_fusion user_buffer use_fused_mlp pp_reduce_scatter"
)
_PLUGINS = (
    "bert_attention_plugin gpt_attention_plugin lora_plugin moe_plugin mamba_conv1d_plugin"
    " nccl_plugin"
)
_FP8 = (
    "gemm_swiglu_plugin fp8_rowwise_gemm_plugin low_latency_gemm_plugin"
    " low_latency_gemm_swiglu_plugin"
)
_DRAFTS = "draft_tokens_external lookahead_decoding medusa explicit_draft_tokens eagle"
_QUANTIZED = "nvfp4 fp8 int8_sq int4_awq w4a8_awq int8_wo int4_wo full_prec"
_LOG_LEVELS = "internal_error error warning info verbose debug trace"


def _each(names: str, option: Option) -> dict[str, Option]:
    return dict.fromkeys(names.split(), option)


BUILD: Final[dict[str, Option]] = {
    **_each(_NUMBERS, NUMBER),
    **_each(_SWITCHES, SWITCH),
    **_each(_TEXTS, TEXT),
    **_each(_ENABLED, ENABLED),
    **_each(_PLUGINS, PLUGIN),
    **_each(_FP8, FP8),
    "gemm_plugin": {"choices": [*PLUGIN["choices"], "fp8", "nvfp4"]},
    "gemm_allreduce_plugin": HALF,
    "kv_cache_type": {"choices": ["continuous", "paged", "disabled"]},
    "profiling_verbosity": {"choices": ["layer_names_only", "detailed", "none"]},
    "log_level": {"choices": _LOG_LEVELS.split()},
    "logits_dtype": {"choices": ["float16", "float32"]},
    "lora_dir": {"nargs": "+"},
    "lora_ckpt_source": {"choices": ["hf", "nemo"]},
    "lora_target_modules": {"nargs": "+", "choices": _LORA_MODULES.split()},
    "speculative_decoding_mode": {"choices": _DRAFTS.split()},
}

CONVERT: Final[dict[str, Option]] = {
    **_each("model_dir output_dir quant_ckpt_path", TEXT),
    **_each("tp_size pp_size workers", NUMBER),
    **_each(
        "use_weight_only nougat verbose use_parallel_embedding skip_cross_kv"
        " use_implicit_relative_attention",
        SWITCH,
    ),
    "embedding_sharding_dim": {"type": "int", "choices": [0, 1]},
    "weight_only_precision": {"choices": ["int8", "int4", "int4_gptq"]},
    "logits_dtype": {"choices": ["float16", "float32"]},
    "dtype": DTYPE,
}

_ENC_DEC = "t5 nmt bart pix2struct blip2 language_adapter"
_WHISPERS = (
    "large-v3 large-v3-turbo large-v2 medium small base tiny medium.en small.en base.en tiny.en"
    " distil-large-v3 distil-large-v2 distil-medium.en distil-small.en"
)

OF_CONVERTER: Final[dict[str, dict[str, Option]]] = {
    "opt": {"model_type": {"choices": ["opt", "blip2"]}},
    "enc_dec": {
        "model_type": {"choices": _ENC_DEC.split()},
        "dtype": FLOATS,
        "weight_only_precision": {"choices": ["int8", "int4"]},
    },
    "whisper": {
        "model_name": {"choices": _WHISPERS.split()},
        "dtype": FLOATS,
        "weight_only_precision": {"choices": ["int8", "int4"]},
    },
}
"""What one converter declares otherwise than the others, or alone."""

QUANTIZE: Final[dict[str, Option]] = {
    **_each("model_dir output_dir calib_dataset", TEXT),
    **_each("calib_size batch_size tp_size pp_size awq_block_size seed", NUMBER),
    "dtype": DTYPE,
    "qformat": {"choices": _QUANTIZED.split()},
    "kv_cache_dtype": {"choices": ["int8", "fp8"]},
    "device": {"choices": ["cuda", "cpu"]},
    "device_map": {"choices": ["auto", "sequential", "cpu", "gpu"]},
}

_VISION_TYPES = (
    "blip2 llava llava_next llava_onevision llava_onevision_lmms vila nougat cogvlm fuyu pix2struct"
    " neva kosmos-2 video-neva phi-3-vision mllama internvl qwen2_vl internlm-xcomposer2"
    " qwen2_audio pixtral"
)

VISION: Final[dict[str, Option]] = {
    **_each("model_path vila_path output_dir", TEXT),
    **_each("max_batch_size max_hw_dims min_hw_dims num_mul_bins max_mel_seq_len", NUMBER),
    "model_type": {"choices": _VISION_TYPES.split()},
}


TOKENIZER_INFO: Final[dict[str, Option]] = _each("model_dir output_dir", TEXT)

FRACTION: Final[Option] = {"type": "float"}

SERVE: Final[dict[str, Option]] = {
    **_each(
        "tokenizer host extra_llm_api_options config reasoning_parser metadata_server_config_file"
        " server_role disagg_cluster_uri media_io_kwargs custom_tokenizer custom_module_dirs"
        " revision tool_parser otlp_traces_endpoint chat_template",
        TEXT,
    ),
    **_each(
        "port max_beam_width max_batch_size max_num_tokens max_seq_len tp_size pp_size ep_size"
        " cluster_size gpus_per_node num_postprocess_workers tensor_parallel_size"
        " pipeline_parallel_size",
        NUMBER,
    ),
    **_each(
        "trust_remote_code fail_fast_on_attention_window_too_large enable_chunked_prefill grpc",
        SWITCH,
    ),
    **_each("kv_cache_free_gpu_memory_fraction free_gpu_memory_fraction", FRACTION),
    "backend": {"choices": ["pytorch", "tensorrt", "trt", "_autodeploy"]},
    "log_level": BUILD["log_level"],
}


def options_of(program: str, names: frozenset[str]) -> dict[str, Option]:
    """Return the declarations of a program's options.

    Raises:
        KeyError: a name without a declaration: the planner's table has grown.
    """
    declared = {
        "trtllm-build": BUILD,
        "quantize": QUANTIZE,
        "vision": VISION,
        "trtllm-serve": SERVE,
    }.get(program) or {**CONVERT, **OF_CONVERTER.get(program, {})}
    return {name: declared[name] for name in sorted(names)}
