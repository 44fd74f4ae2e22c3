"""Metrics of others that queries use, with where they come from.

Checked against the scrape of a real Triton by `make observability-test`; those of TensorRT-LLM's
backend and of GPUs exist only where there is a GPU, so their names are upstream's documents'.
"""

from typing import Final

TRITON: Final = frozenset(
    {
        "nv_inference_count",
        "nv_inference_exec_count",
        "nv_inference_request_failure",
        "nv_pinned_memory_pool_used_bytes",
        "nv_pinned_memory_pool_total_bytes",
        "nv_trt_llm_request_metrics",
    }
)
"""docs/user_guide/metrics.md of triton-inference-server/server; the last is the Reference engine's
too."""

TRITON_WITH_GPU: Final = frozenset(
    {
        # The same page, "GPU Metrics".
        "nv_energy_consumption",
        "nv_gpu_memory_used_bytes",
        "nv_gpu_memory_total_bytes",
        # README.md of triton-inference-server/tensorrtllm_backend, "Triton Metrics".
        "nv_trt_llm_kv_cache_block_metrics",
    }
)

TRTLLM_SERVE: Final = {
    "trtllm_kv_cache_utilization": "NVIDIA/TensorRT-LLM, pull request 11243 (February 2026)",
    "trtllm_num_requests_running": "NVIDIA/TensorRT-LLM, pull request 12545 (March 2026)",
    "trtllm_num_requests_waiting": "NVIDIA/TensorRT-LLM, pull request 12545 (March 2026)",
}
"""Metrics of trtllm-serve on PyTorch (tensorrt_llm/metrics/collector.py) -> since when. All are of
1.3: versions from 1.1 on show latencies of requests alone, which the gateway measures for every
backend."""

VLLM: Final = frozenset(
    {"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"}
)
"""vllm/v1/metrics/loggers.py of 0.20.0 to 0.33.0."""

CLIENT_LIBRARY: Final = frozenset({"process_resident_memory_bytes", "process_cpu_seconds_total"})
"""prometheus_client's ProcessCollector."""

KUBERNETES: Final = frozenset(
    {"container_memory_working_set_bytes", "kube_pod_container_resource_limits"}
)
"""The kubelet's cAdvisor, and kube-state-metrics."""

DCGM: Final = frozenset({"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"})
"""etc/default-counters.csv of NVIDIA/dcgm-exporter, with the labels namespace, pod and gpu."""

UPSTREAM: Final = (
    KUBERNETES | DCGM | TRITON | TRITON_WITH_GPU | frozenset(TRTLLM_SERVE) | VLLM | CLIENT_LIBRARY
)
