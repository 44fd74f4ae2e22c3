"""Which expressions of dashboards may be empty on a healthy demo under load, and why.

Keys are `uid / panel / number` as `support.queries.every_query` has them.
"""

NO_GPU = "the development cluster has no GPU: TensorRT-LLM's and NVIDIA's metrics do not exist"
NO_EXPORTER = "no kubelet, kube-state-metrics or dcgm-exporter is scraped here"
NOTHING_FAILS = "exists from the first failure on, and nothing fails"
NOTHING_IS_MISSED = "shown above 0 only, and the demo has no encoders in pods of their own to miss"
NO_KEYS = "the demo requires no tokens of its clients: no request has a key"

LEGITIMATELY_EMPTY: dict[str, str] = {
    "multimodal-model / Memory pools / 2": NO_GPU,
    "multimodal-model / Memory pools / 3": NO_GPU,
    "multimodal-model / GPU utilization / 1": NO_EXPORTER,
    "multimodal-model / GPU memory / 1": NO_EXPORTER,
    "multimodal-model / Container memory / 1": NO_EXPORTER,
    "multimodal-model / Container memory growth / 1": NO_EXPORTER,
    "multimodal-model / Rejected requests / 1": NOTHING_FAILS,
    "multimodal-model / Tokens by key / 1": NO_KEYS,
    "multimodal-model / Requests by key / 1": NO_KEYS,
    "multimodal-model / Requests by key / 2": NO_KEYS,
    "multimodal-model / Encoded images by encoder / 2": NOTHING_IS_MISSED,
    "multimodal-operator / Errors by stage / 1": NOTHING_FAILS,
    "multimodal-operator / Failed API requests / 1": NOTHING_FAILS,
    "multimodal-builds / Failed builds / 1": NOTHING_FAILS,
}

EMPTY_DASHBOARDS: dict[str, str] = {
    "multimodal-cost": NO_GPU,
    "multimodal-router": "the demo has no router: clients query the model's own Service",
}
"""Uids of dashboards none of whose expressions has a value."""
