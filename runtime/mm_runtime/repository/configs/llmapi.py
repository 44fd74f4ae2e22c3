"""PURE: the tensors of TensorRT-LLM's model for its LLM API, of two models.

`llmapi` runs the ensemble's steps; upstream's `tensorrt_llm` has an LLM of backend PyTorch. Names,
types and defaults are those of triton_backend/all_models/llmapi as NVIDIA's guide for Qwen2.5-VL
serves it: not decoupled, no batch dimension, the prompt in front of the answer unless a request
excludes it. What is absent here Triton refuses by name.
"""

from mm_runtime.repository.configs import ensemble, tensorrt_llm_bls
from mm_runtime.repository.model_config import (
    DataType,
    ModelConfig,
    optional,
    output,
    python_model,
    tensor,
)
from mm_runtime.repository.values import RepositoryValues

NAME = "llmapi"

_SAMPLING = {
    "max_tokens": DataType.INT32,
    "temperature": DataType.FP32,
    "top_k": DataType.INT32,
    "top_p": DataType.FP32,
    "frequency_penalty": DataType.FP32,
    "presence_penalty": DataType.FP32,
    "seed": DataType.UINT64,
}
_PREFIX = "sampling_param_"
_EXCLUDES = f"{_PREFIX}exclude_input_from_output"
INPUTS = (
    tensor("text_input", DataType.STRING, -1),
    optional("image_url", DataType.STRING, -1),
    *(optional(f"{_PREFIX}{name}", kind, 1) for name, kind in _SAMPLING.items()),
    optional(f"{_PREFIX}stop", DataType.STRING, -1),
    optional(_EXCLUDES, DataType.BOOL, 1),
    optional("return_finish_reason", DataType.BOOL, 1),
    optional("return_cumulative_logprob", DataType.BOOL, 1),
)
OUTPUTS = (
    output("text_output", DataType.STRING, -1),
    output("finish_reason", DataType.STRING, -1),
    output("cumulative_logprob", DataType.FP32, -1),
)
NAMES = {
    "image_url": "image_url_input",
    **{f"{_PREFIX}{name}": name for name in _SAMPLING},
    f"{_PREFIX}stop": "stop_words",
    _EXCLUDES: "exclude_input_in_output",
    "return_cumulative_logprob": "return_log_probs",
    "cumulative_logprob": "cum_log_probs",
}
"""Tensor of clients -> tensor of the steps."""

DEFAULTS = {"max_tokens": 32, "exclude_input_in_output": False}
"""Those of `SamplingParams`."""


def config(values: RepositoryValues) -> ModelConfig:
    """Return the model's configuration: processes and steps of `tensorrt_llm_bls`."""
    made = tensorrt_llm_bls.pipeline_model(
        values, NAME, ensemble.known(values, INPUTS), OUTPUTS, names=NAMES, defaults=DEFAULTS
    )
    made.max_batch_size = 0
    made.ClearField("dynamic_batching")
    made.ClearField("model_transaction_policy")
    return made


MEASURED = {
    "kv_cache_reused_block": ("kv_cache_metrics.num_reused_blocks", DataType.INT32),
    "kv_cache_missed_block": ("kv_cache_metrics.num_missed_blocks", DataType.INT32),
    "kv_cache_alloc_new_blocks": ("kv_cache_metrics.num_new_allocated_blocks", DataType.INT32),
    "kv_cache_alloc_total_blocks": ("kv_cache_metrics.num_total_allocated_blocks", DataType.INT32),
    "kv_cache_hit_rate": ("kv_cache_metrics.kv_cache_hit_rate", DataType.FP32),
    "arrival_time_ns": ("timing_metrics.arrival_time", DataType.INT64),
    "first_scheduled_time_ns": ("timing_metrics.first_scheduled_time", DataType.INT64),
    "first_token_time_ns": ("timing_metrics.first_token_time", DataType.INT64),
    "last_token_time_ns": ("timing_metrics.last_token_time", DataType.INT64),
}
"""Output -> where upstream's request_perf_metrics has it, and its type."""


def of_llm_api() -> ModelConfig:
    """Return the configuration of upstream's model with images: what `config` has, and the rest."""
    return python_model(
        "tensorrt_llm",
        max_batch_size=0,
        inputs=(
            *INPUTS,
            optional("streaming", DataType.BOOL, 1),
            optional(f"{_PREFIX}best_of", DataType.INT32, 1),
            optional(f"{_PREFIX}return_perf_metrics", DataType.BOOL, 1),
            optional("return_stop_reason", DataType.BOOL, 1),
        ),
        outputs=(
            *OUTPUTS,
            output("stop_reason", DataType.STRING, -1),
            *(output(name, kind, -1) for name, (_, kind) in MEASURED.items()),
        ),
        batching=None,
        parameters={},
    )
