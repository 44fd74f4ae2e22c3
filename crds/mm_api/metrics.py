"""Catalogue of every metric: name, kind, labels, unit and help; code and dashboards read it."""

from dataclasses import dataclass
from enum import StrEnum


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


_FAST = (
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.15,
    0.2,
    0.25,
    0.3,
    0.4,
    0.5,
    0.75,
    1,
    1.5,
    2,
    3,
    5,
    10,
    30,
)
_TOKEN = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1)
_LONG = (0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 60, 120, 300)

_TOGETHER = (1, 2, 4, 8, 16, 32, 64, 128)
"""Requests of one batch, up to the largest that engines are built for by default and beyond."""

_LAG = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""Seconds: from a loop at rest to one that stands still; 0.05 and 0.25 are the goals for 99 % of
the looks and for the longest."""

_BUILD = (1, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400)
"""Seconds: a tiny model's export to the build of a 70B engine."""

_H, _C, _G = MetricKind.HISTOGRAM, MetricKind.COUNTER, MetricKind.GAUGE

GATEWAY_METRICS: tuple[Metric, ...] = (
    Metric("mm_time_to_first_token_seconds", _H, "From request to first token.", ("model",), _FAST),
    Metric(
        "mm_inter_token_seconds",
        _H,
        "Between two tokens of one answer; those that come together share the time before them.",
        ("model",),
        _TOKEN,
    ),
    Metric("mm_request_seconds", _H, "From request to the last byte.", ("model",), _LONG),
    Metric("mm_queue_seconds", _H, "Waiting for a slot in the gateway.", ("model",), _FAST),
    Metric("mm_requests_accepted_total", _C, "Requests whose prompt was read.", ("model",)),
    Metric("mm_requests_total", _C, "Finished requests by HTTP status.", ("model", "code")),
    Metric("mm_requests_rejected_total", _C, "Refused requests by reason.", ("model", "reason")),
    Metric(
        "mm_key_requests_total",
        _C,
        "Requests that were admitted, by the name of their token.",
        ("model", "key"),
    ),
    Metric(
        "mm_key_tokens_total",
        _C,
        "Tokens of prompts, image features and answers, by the name of the token.",
        ("model", "key"),
    ),
    Metric(
        "mm_key_rejected_total",
        _C,
        "Requests refused for the limits of their key, by reason: key_requests, key_concurrent, "
        "key_tokens.",
        ("model", "key", "reason"),
    ),
    Metric("mm_requests_running", _G, "Requests past the gateway's queue.", ("model",)),
    Metric("mm_requests_waiting", _G, "Requests in the gateway's queue.", ("model",)),
    Metric(
        "mm_tokens_waiting",
        _G,
        "Tokens of requests that wait for a slot: prompts, image features, longest answers.",
        ("model",),
    ),
    Metric("mm_images_total", _C, "Images accepted.", ("model",)),
    Metric("mm_image_tokens_total", _C, "Prompt tokens that images became.", ("model",)),
    Metric("mm_prompt_tokens_total", _C, "Prompt tokens, image tokens included.", ("model",)),
    Metric("mm_output_tokens_total", _C, "Generated tokens.", ("model",)),
    Metric(
        "mm_pod_phase",
        _G,
        "1 for what the pod does, else 0: Loading, WarmingUp (it answers the smallest and the "
        "largest requests of its plan), Ready.",
        ("model", "phase"),
    ),
    Metric(
        "mm_work_seconds",
        _G,
        "Seconds of this replica that one unit of work takes, measured after it was Ready while no "
        "request was inside; 0: what was measured is not believed. unit: request, image_token, "
        "text_token, output_token.",
        ("model", "unit"),
    ),
)

FEATURE_CACHE_LOOKUPS = Metric(
    "mm_feature_cache_lookups_total",
    _C,
    "Images, tiles or frames looked up: hits, misses, shared with another one of the batch.",
    ("result",),
)
FEATURE_CACHE_EVICTIONS = Metric(
    "mm_feature_cache_evictions_total", _C, "Features that were evicted for others."
)
FEATURE_CACHE_BYTES = Metric("mm_feature_cache_bytes", _G, "Bytes of the features that are kept.")

ENCODED_REQUESTS = Metric(
    "mm_encoder_requests_total",
    _C,
    "Requests whose images were encoded, by whom: own (this pod) or encoders (pods of their own).",
    ("by",),
)
ENCODER_FALLBACKS = Metric(
    "mm_encoder_fallbacks_total",
    _C,
    "Requests whose images this pod encoded because no encoder's pod did, by reason: absent, "
    "unavailable, timeout, mismatch, invalid, failed.",
    ("reason",),
)
ENCODER_SECONDS = Metric(
    "mm_encoder_seconds",
    _H,
    "From pixels to features by whom: own batches, or requests to encoders with the way there.",
    ("by",),
    _FAST,
)
ENCODER_QUEUE_SECONDS = Metric(
    "mm_encoder_queue_seconds",
    _H,
    "Waiting of a request with images for this pod's own encoder, until its batch begins.",
    (),
    _FAST,
)
ENCODER_BATCH = Metric(
    "mm_encoder_batch_requests",
    _H,
    "Requests whose images this pod encoded together.",
    (),
    _TOGETHER,
)
DECODE_BATCH = Metric(
    "mm_decode_batch_requests",
    _H,
    "Requests that one step of the Reference engine decoded together.",
    (),
    _TOGETHER,
)
KV_REUSE_TOKENS = Metric(
    "mm_kv_reuse_tokens_total",
    _C,
    "Tokens of prompts on the Reference engine that were looked for in earlier requests: reused, "
    "computed.",
    ("result",),
)
KV_REUSE_EVICTIONS = Metric(
    "mm_kv_reuse_evicted_blocks_total",
    _C,
    "Blocks of 16 tokens of earlier requests that were evicted for others.",
)
KV_REUSE_BYTES = Metric(
    "mm_kv_reuse_bytes", _G, "Bytes of keys and values of earlier requests that are kept."
)
PREPROCESSING_SECONDS = Metric(
    "mm_preprocessing_seconds",
    _H,
    "One request's text, images or audio to tensors; what it has to fetch included.",
    (),
    _FAST,
)
EXECUTING_REQUESTS = Metric(
    "mm_server_executing_requests",
    _G,
    "Requests that a stage before the language model has taken up and not answered.",
    ("stage",),
)

SERVER_RESTARTS = Metric(
    "mm_server_restarts_total", _C, "Times tritonserver died and was started again in its pod."
)
POOL_FALLBACKS = Metric(
    "mm_server_pool_fallbacks_total",
    _C,
    "Times tritonserver said that a pool is full (cuda, pinned): once in the life of a server.",
    ("pool",),
)
POOL_PLANNED_BYTES = Metric(
    "mm_server_pool_planned_bytes", _G, "Bytes the plan gives to a pool: cuda, pinned.", ("pool",)
)
GPU_SHARING = Metric(
    "mm_server_gpu_sharing",
    _G,
    "1 for how encoder and language model share a GPU: none, mps, or time-slices.",
    ("mode",),
)

SERVER_METRICS: tuple[Metric, ...] = (
    SERVER_RESTARTS,
    POOL_FALLBACKS,
    POOL_PLANNED_BYTES,
    GPU_SHARING,
    FEATURE_CACHE_LOOKUPS,
    FEATURE_CACHE_EVICTIONS,
    FEATURE_CACHE_BYTES,
    ENCODED_REQUESTS,
    ENCODER_FALLBACKS,
    ENCODER_SECONDS,
    ENCODER_QUEUE_SECONDS,
    ENCODER_BATCH,
    DECODE_BATCH,
    KV_REUSE_TOKENS,
    KV_REUSE_EVICTIONS,
    KV_REUSE_BYTES,
    PREPROCESSING_SECONDS,
    EXECUTING_REQUESTS,
)
"""Metrics of the server container. Its port adds the label `model` to these and to Triton's own,
whose label of that name becomes `triton_model`; the gateway's page repeats them all."""

ROUTER_METRICS: tuple[Metric, ...] = (
    Metric("mm_router_requests_total", _C, "Finished requests by HTTP status.", ("model", "code")),
    Metric(
        "mm_router_placements_total",
        _C,
        "Requests sent to a replica, by why it was chosen: affinity (the first of its key), spill "
        "(the first had too much to do), load (no key).",
        ("model", "by"),
    ),
    Metric(
        "mm_router_retries_total",
        _C,
        "Requests sent to another replica, by what the one before did: unreachable, draining.",
        ("model", "reason"),
    ),
    Metric(
        "mm_router_ejections_total",
        _C,
        "Replicas that get no requests for a while, by why: unreachable, broken, errors.",
        ("model", "reason"),
    ),
    Metric(
        "mm_router_splits_total",
        _C,
        "Requests by the name of a split, by model and why: weight (the key's own model), fallback "
        "(that one has no replica that takes requests).",
        ("model", "split", "by"),
    ),
    Metric(
        "mm_router_first_byte_seconds",
        _H,
        "From a request's head to the first byte of its answer, by those that were answered.",
        ("model",),
        _FAST,
    ),
    Metric(
        "mm_router_version_requests_total",
        _C,
        "Finished requests of models with a canary, by who answered (stable, canary) and HTTP "
        "status; error: a stream that failed.",
        ("model", "version", "code"),
    ),
    Metric(
        "mm_router_version_first_text_seconds",
        _H,
        "The same, from a request's head to the first text of its answer.",
        ("model", "version"),
        _FAST,
    ),
    Metric(
        "mm_router_hold_seconds",
        _H,
        "How long requests waited for a replica of a model that had none, by those that got one.",
        ("model",),
        _LONG,
    ),
    Metric(
        "mm_router_hold_refused_total",
        _C,
        "Requests answered 503 because a bound of waiting requests was met: requests, bytes, "
        "seconds.",
        ("model", "reason"),
    ),
    Metric(
        "mm_router_key_requests_total",
        _C,
        "Requests of keys with limits that were admitted.",
        ("key",),
    ),
    Metric(
        "mm_router_key_rejected_total",
        _C,
        "Requests refused for the limits of their key: key_requests, key_concurrent.",
        ("key", "reason"),
    ),
    Metric("mm_router_outstanding_requests", _G, "Requests that replicas answer now.", ("model",)),
    Metric(
        "mm_router_outstanding_tokens",
        _G,
        "Estimated tokens of the requests that replicas answer now: prompts until the first token, "
        "images, answers.",
        ("model",),
    ),
    Metric("mm_router_held_requests", _G, "Requests that wait for a replica now.", ("model",)),
    Metric(
        "mm_router_oldest_held_seconds",
        _G,
        "How long the oldest request has waited for a replica; 0: none waits.",
        ("model",),
    ),
    Metric("mm_router_replicas", _G, "Ready replicas in the EndpointSlices.", ("model",)),
    Metric("mm_router_replicas_ejected", _G, "Replicas ejected or on trial.", ("model",)),
)
"""Label `model` is `namespace/name`; empty for requests that name no model. `key` is the name of a
token in the router's Secret."""

OPERATOR_METRICS: tuple[Metric, ...] = (
    Metric("mm_operator_reconcile_total", _C, "Reconciles by result.", ("result",)),
    Metric("mm_operator_reconcile_seconds", _H, "Duration of a reconcile.", (), _FAST),
    Metric("mm_operator_errors_total", _C, "Errors by stage of the reconcile.", ("stage",)),
    Metric("mm_operator_queue_depth", _G, "Keys that wait for a reconcile."),
    Metric("mm_operator_api_requests_total", _C, "API requests.", ("verb", "resource", "code")),
    Metric("mm_operator_leader", _G, "1 on the replica that leads, else 0."),
    Metric(
        "mm_operator_namespaces_refused",
        _G,
        "Namespaces that another installation of the operator serves: this one refuses them.",
    ),
    Metric(
        "mm_operator_namespaces_missing",
        _G,
        "Namespaces that were to be served and did not exist when the operator was installed.",
    ),
    Metric(
        "mm_operator_definition_outdated",
        _G,
        "1 while the installed resource definition is older than the operator, else 0.",
    ),
    Metric("mm_operator_models", _G, "Models by whether they are Ready.", ("ready",)),
    Metric("mm_operator_build_step_seconds", _H, "Finished build steps.", ("step",), _BUILD),
    Metric(
        "mm_operator_build_seconds",
        _H,
        "From the start of a build's pod to its end: succeeded or failed.",
        ("outcome",),
        _BUILD,
    ),
    Metric(
        "mm_operator_build_failures_total",
        _C,
        "Failed builds by step (unknown when none was reported) and reason.",
        ("step", "reason"),
    ),
    Metric(
        "mm_operator_engine_reuses_total",
        _C,
        "Models that took an engine built elsewhere: by a sibling, another namespace, the store.",
        ("origin",),
    ),
    Metric("mm_operator_engine_bytes_total", _C, "Bytes of engines that were built."),
    Metric(
        "mm_operator_event_loop_lag_seconds",
        _H,
        "Delay of the event loop, sampled 40 times a second; a stall is "
        "one observation of its full length.",
        (),
        _LAG,
    ),
    Metric(
        "mm_operator_events_dropped_total",
        _C,
        "Events that were not posted, by reason: Repeated while the same one waited, Superseded by "
        "the next stage of the condition, QueueFull, Refused by the API server.",
        ("reason",),
    ),
    Metric("mm_operator_builds_waiting", _G, "Models that wait for another one's build."),
)

_MODEL = ("namespace", "model")

MODEL_METRICS: tuple[Metric, ...] = (
    Metric(
        "mm_model_condition",
        _G,
        "1 when the condition is True, else 0; the reason is the condition's.",
        (*_MODEL, "condition", "reason"),
    ),
    Metric(
        "mm_model_replicas",
        _G,
        "Replicas by state: desired, ready, and the bounds min and max of autoscaling.",
        (*_MODEL, "state"),
    ),
    Metric(
        "mm_model_objective_seconds",
        _G,
        "Latency to keep; bucket is the largest le of its histogram that is not above it.",
        (*_MODEL, "objective", "bucket"),
    ),
    Metric(
        "mm_model_objective_ratio",
        _G,
        "Share of requests that must keep the latency.",
        (*_MODEL, "objective"),
    ),
)
"""What the leading operator knows of each model; the other replicas say nothing, so that no series
exists twice."""

OBJECTIVE_HISTOGRAMS: dict[str, str] = {
    "TimeToFirstToken": "mm_time_to_first_token_seconds",
    "InterTokenLatency": "mm_inter_token_seconds",
    "RequestLatency": "mm_request_seconds",
    "QueueTime": "mm_queue_seconds",
}
"""Each `autoscaling.objectives[].metric` and the histogram of the gateway that measures it."""


def buckets_of(name: str) -> tuple[float, ...]:
    return next(one.buckets for one in GATEWAY_METRICS if one.name == name)


SCALING_METRICS: tuple[Metric, ...] = (
    Metric("mm_autoscaling_desired_replicas", _G, "Replicas wanted by the policy.", _MODEL),
    Metric("mm_autoscaling_applied_replicas", _G, "spec.replicas of the model.", _MODEL),
    Metric("mm_autoscaling_changes_total", _C, "Changes by direction.", (*_MODEL, "direction")),
    Metric(
        "mm_autoscaling_reversals_total",
        _C,
        "Changes that undid the one before within 15 minutes.",
        _MODEL,
    ),
    Metric("mm_autoscaling_veto_total", _C, "Ticks with a veto.", (*_MODEL, "veto")),
    Metric(
        "mm_autoscaling_slo_attainment",
        _G,
        "Share of the last minutes' requests that kept the target.",
        (*_MODEL, "objective"),
    ),
    Metric(
        "mm_autoscaling_cold_start_seconds",
        _G,
        "Median of the last starts by phase: scheduled, pulled, loaded, warm; total is from "
        "scheduled to Ready.",
        (*_MODEL, "phase"),
    ),
    Metric(
        "mm_autoscaling_decision_age_seconds", _G, "Since the last decision with metrics.", _MODEL
    ),
    Metric("mm_autoscaling_metrics_available", _G, "1 when Prometheus answered, else 0.", _MODEL),
    Metric("mm_autoscaling_tick_seconds", _H, "Duration of a tick over all models.", (), _FAST),
)
"""What the autoscaler of the leading operator says; series of a model go with the model."""
