"""Model: what do its users wait for, and what does the engine do meanwhile?"""

from mm_observability.dashboards.dashboard import (
    FULL,
    FULL_IS_BAD,
    HALF,
    NONE_IS_GOOD,
    THIRD,
    Dashboard,
    Panel,
    Query,
    panel,
    row,
)
from mm_observability.dashboards.shared import BOUNDS, FINISHED_REQUESTS, WHO, WITHIN_BOUNDS
from mm_observability.queries import autoscaling, latency, models, server, traffic
from mm_observability.queries.select import CHOSEN

SERVERS = row(
    "Servers",
    panel(
        "Feature cache lookups",
        "Images, tiles or frames per second: hits cost no encoding, shared ones were "
        "being encoded already. Empty where spec.vision.featureCacheBytes is 0.",
        Query(server.cache_lookups(CHOSEN), f"{WHO} {{{{result}}}}"),
        unit="ops",
        stacked=True,
    ),
    panel(
        "Prompt tokens, reused and computed",
        "Tokens per second of prompts whose keys and values were kept of earlier requests, "
        "and of those that were computed. Empty where spec.engine.kvCache.reuse is off, "
        "and on backends other than Reference.",
        Query(server.reused_tokens(CHOSEN), f"{WHO} {{{{result}}}}"),
        unit="ops",
        stacked=True,
    ),
    panel(
        "Server restarts",
        "Servers that died and were started again in their pod, within one step of this "
        "panel; the third death in five minutes ends the pod.",
        Query(server.restarts(CHOSEN), WHO),
        steps=NONE_IS_GOOD,
    ),
    panel(
        "Pods by phase",
        "Pods that load their models, that answer the warm-up requests at the limits of "
        "their plan, and that are ready. One that stays in WarmingUp says at `/readyz` "
        "which request fails.",
        Query(server.phases(CHOSEN), f"{WHO} {{{{phase}}}}"),
        stacked=True,
    ),
    collapsed=True,
)


_PART = f"{WHO} {{{{triton_model}}}}"


def _latency_panel(title: str, description: str, objective: str) -> Panel:
    return panel(
        title,
        f"{description} The dashed line is the objective of the spec, where there is one.",
        *(
            Query(latency.quantile(objective, share, CHOSEN), f"{WHO} p{share * 100:g}")
            for share in (0.5, 0.95, 0.99)
        ),
        Query(latency.target(objective, CHOSEN), f"{WHO} objective"),
        unit="s",
        width=HALF,
        dashed=".* objective",
        runbook="MultimodalLatencyBudgetBurnsFast",
    )


_LATENCY = row(
    "Latency",
    _latency_panel(
        "Time to first token",
        "From the request to its first token: what a reader waits for.",
        "TimeToFirstToken",
    ),
    _latency_panel("Inter-token latency", "Between two tokens of one answer.", "InterTokenLatency"),
    _latency_panel("Request latency", "From the request to the last byte.", "RequestLatency"),
    _latency_panel(
        "Queue time",
        "Waiting for a slot: above zero means that every slot is taken.",
        "QueueTime",
    ),
)

_TOKENS = row(
    "Requests and tokens",
    FINISHED_REQUESTS,
    panel(
        "Requests in flight",
        "Running and waiting requests over all pods.",
        Query(traffic.running(CHOSEN), f"{WHO} running"),
        Query(traffic.waiting(CHOSEN), f"{WHO} waiting"),
        width=THIRD,
    ),
    panel(
        "Rejected requests",
        "Refused requests per second by reason.",
        Query(traffic.rejected(CHOSEN), f"{WHO} {{{{reason}}}}"),
        unit="reqps",
        width=THIRD,
        runbook="MultimodalRequestsRejected",
    ),
    panel(
        "Tokens",
        "Tokens per second: prompt text, images, answers.",
        Query(traffic.text_tokens(CHOSEN), f"{WHO} prompt text"),
        Query(traffic.image_tokens(CHOSEN), f"{WHO} prompt images"),
        Query(traffic.output_tokens(CHOSEN), f"{WHO} answers"),
        unit="tokens/s",
        width=FULL,
        stacked=True,
    ),
)

_KEYS = row(
    "Keys",
    panel(
        "Tokens by key",
        "Tokens of prompts and answers per second, by the name of the client's token.",
        Query(traffic.key_tokens(CHOSEN), f"{WHO} {{{{key}}}}"),
        unit="tokens/s",
        stacked=True,
    ),
    panel(
        "Requests by key",
        "Requests per second that were admitted, and refused for the limits of their key.",
        Query(traffic.key_requests(CHOSEN), f"{WHO} {{{{key}}}}"),
        Query(traffic.key_rejected(CHOSEN), f"{WHO} {{{{key}}}} {{{{reason}}}}"),
        unit="reqps",
    ),
    collapsed=True,
)

_ENGINE = row(
    "Engine",
    panel(
        "Engine requests",
        "Active and waiting requests and the limit of the engine.",
        Query(server.engine_requests(CHOSEN), f"{WHO} {{{{request_type}}}}"),
        dashed=".* max",
    ),
    panel(
        "Batch size",
        "Mean number of inferences in one execution of each Triton model.",
        Query(server.batch_size(CHOSEN), _PART),
    ),
    panel(
        "Failed inferences",
        "Per second, by Triton model and reason.",
        Query(server.failures(CHOSEN), f"{_PART} {{{{reason}}}}"),
        unit="ops",
        runbook="MultimodalRequestsFail",
    ),
    panel(
        "Encoded images by encoder",
        "Requests with images per second, by who encoded them: the pods themselves (own) "
        "or encoders in pods of their own; and why those did not.",
        Query(server.encoded(CHOSEN), f"{WHO} {{{{by}}}}"),
        Query(server.encoder_fallbacks(CHOSEN), f"{WHO} instead: {{{{reason}}}}"),
        unit="ops",
        width=HALF,
    ),
    panel(
        "Encoding time, p95",
        "What 95 % keep: batches of the pods themselves (own), and requests to encoders in "
        "pods of their own with the way there.",
        Query(server.encoding_seconds(0.95, CHOSEN), f"{WHO} {{{{by}}}}"),
        unit="s",
        width=HALF,
    ),
    panel(
        "Memory pools",
        "How full the fullest pod's pools are: pinned memory, key-value cache, GPU.",
        Query(server.pinned_pool_share(CHOSEN), f"{WHO} pinned memory"),
        Query(server.kv_cache_share(CHOSEN), f"{WHO} key-value cache"),
        Query(server.gpu_memory_share(CHOSEN), f"{WHO} GPU memory"),
        unit="percentunit",
        width=HALF,
        steps=FULL_IS_BAD,
        most=1,
        runbook="MultimodalPoolExhausted",
    ),
    panel(
        "Exhausted pools",
        "Servers of the running pods that found a pool full: CUDA memory fails requests, "
        "pinned memory slows copies. Each server says it once in its life.",
        Query(server.full_pools(CHOSEN), f"{WHO} {{{{pool}}}}"),
        width=HALF,
        steps=NONE_IS_GOOD,
        runbook="MultimodalPoolFull",
    ),
    width=THIRD,
    collapsed=True,
)

_REPLICAS = row(
    "Replicas",
    panel(
        "Replicas",
        "Desired and ready replicas between the bounds; a mark is a scaling decision.",
        Query(models.replicas("desired", CHOSEN), f"{WHO} desired"),
        *WITHIN_BOUNDS,
        dashed=BOUNDS,
        runbook="MultimodalAtMaxAndSlow",
    ),
    panel(
        "Conditions",
        "Whether each condition is True, over time.",
        *tuple(
            Query(models.holds(kind, CHOSEN), f"{WHO} {kind}")
            for kind in ("Ready", "EngineBuilt", "RollingOut", "Degraded")
        ),
        kind="state",
        runbook="MultimodalModelUnavailable",
    ),
)

DASHBOARD = Dashboard(
    uid="multimodal-model",
    title="Multimodal / Model",
    description="Latency against its objectives, tokens, batches, pools and replicas.",
    rows=(_LATENCY, _TOKENS, _REPLICAS, _ENGINE, SERVERS, _KEYS),
    annotation=Query(autoscaling.changed(CHOSEN), "replicas changed"),
)
