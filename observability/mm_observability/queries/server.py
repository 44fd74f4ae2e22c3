"""Triton inside the pods: batches, queues, pools.

On the gateway's page every series of the pod has the label `model`, the MultimodalModel; Triton's
own name of a model (`tensorrt_llm`) is `triton_model` there.
"""

from mm_observability.queries.select import (
    ALL,
    MODEL,
    PANEL,
    Sum,
    increase,
    kept_by,
    per_model,
    rate,
    series,
)

_MODEL = "triton_model"


def batch_size(labels: str = ALL) -> str:
    """Return the mean number of inferences in one execution by Triton model."""
    count = per_model(rate("nv_inference_count", labels), _MODEL)
    runs = per_model(rate("nv_inference_exec_count", labels), _MODEL)
    return f"{count} / ({runs} > 0)"


def failures(labels: str = ALL, *, window: str = PANEL) -> str:
    return per_model(rate("nv_inference_request_failure", labels, window=window), _MODEL, "reason")


def engine_requests(labels: str = ALL) -> str:
    """Return the language model's requests by state: active, waiting, max.

    Of trtllm-serve, from 1.3 on, and of vLLM the first two.
    """
    found = [per_model(series("nv_trt_llm_request_metrics", labels), "request_type")]
    found += [
        _named(per_model(series(name, labels)), "request_type", state)
        for name, state in (
            ("trtllm_num_requests_running", "active"),
            ("trtllm_num_requests_waiting", "waiting"),
            ("vllm:num_requests_running", "active"),
            ("vllm:num_requests_waiting", "waiting"),
        )
    ]
    return " or ".join(found)


def pinned_pool_share(labels: str = ALL) -> str:
    """Return how full the fullest pod's pool of pinned memory is."""
    used = series("nv_pinned_memory_pool_used_bytes", labels)
    total = series("nv_pinned_memory_pool_total_bytes", labels)
    return f"max by (namespace, model) ({used} / ({total} > 0))"


def kv_cache_share(labels: str = ALL) -> str:
    """Return how full the fullest key-value cache is, of the engines that say it."""
    block = 'kv_cache_block_type="fraction"'
    engines = series("nv_trt_llm_kv_cache_block_metrics", labels, block)
    served = series("trtllm_kv_cache_utilization", labels)
    vllm = series("vllm:kv_cache_usage_perc", labels)
    return f"max by (namespace, model) ({engines} or {served} or {vllm})"


def _named(expression: str, label: str, value: str) -> str:
    return f'label_replace({expression}, "{label}", "{value}", "", "")'


encoded = Sum("mm_encoder_requests_total", f"{MODEL}, by")


def encoder_fallbacks(labels: str = ALL) -> str:
    """Return requests per second that no encoder's pod answered, by reason; above 0 only."""
    return per_model(rate("mm_encoder_fallbacks_total", labels), "reason") + " > 0"


def encoding_seconds(share: float, labels: str = ALL) -> str:
    """Return the time of encoding that `share` of all keep, by who encoded."""
    return kept_by(share, "mm_encoder_seconds", labels, "by")


def full_pools(labels: str = ALL) -> str:
    """Return how often servers that run now said that a pool is full; each says it once."""
    return per_model(series("mm_server_pool_fallbacks_total", labels), "pool")


phases = Sum("mm_pod_phase", f"{MODEL}, phase")


def restarts(labels: str = ALL) -> str:
    """Return how often servers died and were started again in their pods."""
    return per_model(increase("mm_server_restarts_total", labels, window=PANEL))


cache_lookups = Sum("mm_feature_cache_lookups_total", f"{MODEL}, result")
reused_tokens = Sum("mm_kv_reuse_tokens_total", f"{MODEL}, result")


def gpu_memory_share(labels: str = ALL) -> str:
    """Return how full the fullest GPU's memory is; pods with GPUs only."""
    used = series("nv_gpu_memory_used_bytes", labels)
    total = series("nv_gpu_memory_total_bytes", labels)
    return f"max by (namespace, model) ({used} / ({total} > 0))"
