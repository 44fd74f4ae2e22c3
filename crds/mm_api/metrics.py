"""Catalogue of every metric: name, kind, labels and help; code, dashboards and docs read it.

The rows are in `metrics.json`, by who exposes them. Its buckets are seconds, but for `batch`:
requests together, up to the largest batch that engines are built for by default and beyond. `lag`
goes from an event loop at rest to one that stands still, `build` from a tiny model's export to the
build of a 70B engine.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from typing import Any


class MetricKind(StrEnum):
    """Prometheus metric types that are used."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. Buckets are seconds unless the name says otherwise."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_DATA: dict[str, Any] = json.loads((files("mm_api") / "metrics.json").read_text(encoding="utf-8"))
_BUCKETS: dict[str, list[float]] = _DATA["buckets"]


def _metrics(section: str) -> tuple[Metric, ...]:
    return tuple(
        Metric(
            name,
            MetricKind(row["kind"]),
            row["help"],
            tuple(row.get("labels", ())),
            tuple(_BUCKETS[row["buckets"]]) if "buckets" in row else (),
        )
        for name, row in _DATA[section].items()
    )


GATEWAY_METRICS = _metrics("gateway")

SERVER_METRICS = _metrics("server")
"""Metrics of the server container. Its port adds the label `model` to these and to Triton's own,
whose label of that name becomes `triton_model`; the gateway's page repeats them all."""

ROUTER_METRICS = _metrics("router")
"""Label `model` is `namespace/name`; empty for requests that name no model. `key` is the name of a
token in the router's Secret."""

OPERATOR_METRICS = _metrics("operator")

MODEL_METRICS = _metrics("models")
"""What the leading operator knows of each model; the other replicas say nothing, so that no series
exists twice."""

SCALING_METRICS = _metrics("scaling")
"""What the autoscaler of the leading operator says; series of a model go with the model."""

_SERVER = {metric.name: metric for metric in SERVER_METRICS}

SERVER_RESTARTS = _SERVER["mm_server_restarts_total"]
POOL_FALLBACKS = _SERVER["mm_server_pool_fallbacks_total"]
POOL_PLANNED_BYTES = _SERVER["mm_server_pool_planned_bytes"]
GPU_SHARING = _SERVER["mm_server_gpu_sharing"]
FEATURE_CACHE_LOOKUPS = _SERVER["mm_feature_cache_lookups_total"]
FEATURE_CACHE_EVICTIONS = _SERVER["mm_feature_cache_evictions_total"]
FEATURE_CACHE_BYTES = _SERVER["mm_feature_cache_bytes"]
ENCODED_REQUESTS = _SERVER["mm_encoder_requests_total"]
ENCODER_FALLBACKS = _SERVER["mm_encoder_fallbacks_total"]
ENCODER_SECONDS = _SERVER["mm_encoder_seconds"]
ENCODER_BUSY_SECONDS = _SERVER["mm_encoder_busy_seconds_total"]
ENCODER_QUEUE_SECONDS = _SERVER["mm_encoder_queue_seconds"]
ENCODER_BATCH = _SERVER["mm_encoder_batch_requests"]
DECODE_BATCH = _SERVER["mm_decode_batch_requests"]
KV_REUSE_TOKENS = _SERVER["mm_kv_reuse_tokens_total"]
KV_REUSE_EVICTIONS = _SERVER["mm_kv_reuse_evicted_blocks_total"]
KV_REUSE_BYTES = _SERVER["mm_kv_reuse_bytes"]
PREPROCESSING_SECONDS = _SERVER["mm_preprocessing_seconds"]
EXECUTING_REQUESTS = _SERVER["mm_server_executing_requests"]

OBJECTIVE_HISTOGRAMS: dict[str, str] = {
    "TimeToFirstToken": "mm_time_to_first_token_seconds",
    "InterTokenLatency": "mm_inter_token_seconds",
    "RequestLatency": "mm_request_seconds",
    "QueueTime": "mm_queue_seconds",
}
"""Each `autoscaling.objectives[].metric` and the histogram of the gateway that measures it."""


def buckets_of(name: str) -> tuple[float, ...]:
    return next(one.buckets for one in GATEWAY_METRICS if one.name == name)
