"""Router: does each model have replicas that answer, and do requests meet those that know them?"""

from mm_observability.dashboards.dashboard import (
    FEW_IS_GOOD,
    FULL,
    HALF,
    QUARTER,
    THIRD,
    Dashboard,
    Query,
    panel,
    row,
)
from mm_observability.dashboards.shared import percentiles
from mm_observability.queries import router

_MODEL = "{{model}}"

_REQUESTS = row(
    "Requests",
    panel(
        "Routed requests by status",
        "Requests per second; 499 is a client that left.",
        Query(router.requests(), f"{_MODEL} {{{{code}}}}"),
        unit="reqps",
        width=HALF,
        stacked=True,
    ),
    panel(
        "Failed requests",
        "Share of requests that ended with 500 or above, lost replicas among them.",
        Query(router.failed_share(), _MODEL),
        unit="percentunit",
        steps=FEW_IS_GOOD,
        runbook="MultimodalRouterRequestsFail",
    ),
    panel(
        "Requests in flight",
        "Requests that replicas answer now.",
        Query(router.outstanding(), _MODEL),
    ),
    panel(
        "Time to first byte",
        "Time from a request's head to the first byte of its answer: median and 95 %.",
        *percentiles(router.first_byte, f"{_MODEL} ", 0.5, 0.95),
        unit="s",
    ),
    panel(
        "Tokens in flight",
        "Estimated tokens of the requests that replicas answer now: prompts until the "
        "first token, images, answers.",
        Query(router.outstanding_tokens(), _MODEL),
    ),
    panel(
        "Affinity hit rate",
        "Share of placements at the first replica of their key: its cache may have the "
        "image, or the beginning of the conversation.",
        Query(router.affinity_share(), _MODEL),
        unit="percentunit",
    ),
    panel(
        "Routing decisions",
        "Placements per second: affinity, spill (the first had too much to do), load (no key).",
        Query(router.placements(), "{{by}}"),
        unit="ops",
        stacked=True,
    ),
    panel(
        "Requests by split",
        "Requests per second by the name of a split and by model; fallback: the model "
        "answers for one without replicas.",
        Query(router.splits(), f"{{{{split}}}}: {_MODEL} {{{{by}}}}"),
        unit="reqps",
        width=FULL,
        stacked=True,
    ),
    width=QUARTER,
)

_REPLICAS = row(
    "Replicas",
    panel(
        "Ready replicas",
        "As the router sees them that sees the fewest.",
        Query(router.replicas(), _MODEL),
    ),
    panel(
        "Ejected replicas",
        "Share of a model's replicas that get no requests for a while.",
        Query(router.ejected_share(), _MODEL),
        unit="percentunit",
        steps=FEW_IS_GOOD,
        runbook="MultimodalRouterReplicasEjected",
    ),
    panel(
        "Ejections",
        "Replicas per second that could not be reached, broke off, or failed.",
        Query(router.ejections(), f"{_MODEL} {{{{reason}}}}"),
        unit="ops",
    ),
    panel(
        "Retries",
        "Requests per second that another replica got, before their first byte.",
        Query(router.retries(), f"{_MODEL} {{{{reason}}}}"),
        unit="ops",
    ),
    panel(
        "Oldest held request",
        "How long the oldest request that the router holds has waited.",
        Query(router.held_seconds(), _MODEL),
        unit="s",
        width=FULL,
        runbook="MultimodalRequestsHeldTooLong",
    ),
    width=QUARTER,
)

_VERSION = f"{_MODEL} {{{{version}}}}"

_CANARIES = row(
    "Canaries",
    panel(
        "Requests by revision",
        "Requests per second of models with a canary, by who answered.",
        Query(router.version_requests(), f"{_VERSION} {{{{code}}}}"),
        unit="reqps",
        stacked=True,
    ),
    panel(
        "Failed requests by revision",
        "Share of requests with a status of 400 or above, or a stream that failed.",
        Query(router.version_failed_share(), _VERSION),
        unit="percentunit",
        steps=FEW_IS_GOOD,
        runbook="MultimodalCanaryRolledBack",
    ),
    panel(
        "Time to first text by revision",
        "From a request's head to the first text of its answer: median and 95 %.",
        *percentiles(router.version_first_text, f"{_VERSION} ", 0.5, 0.95),
        unit="s",
    ),
    width=THIRD,
    collapsed=True,
)

_KEYS = row(
    "Key limits",
    panel(
        "Rejected requests by key",
        "Requests per second that were refused for the limits of their key: key_requests "
        "(a minute's), key_concurrent (at one time).",
        Query(router.key_rejected(), "{{key}} {{reason}}"),
        unit="reqps",
    ),
    panel(
        "Requests by key",
        "Requests per second of keys with limits that were admitted.",
        Query(router.key_requests(), "{{key}}"),
        unit="reqps",
        stacked=True,
    ),
    collapsed=True,
)

DASHBOARD = Dashboard(
    uid="multimodal-router",
    title="Multimodal / Router",
    description="Requests through the router, by model: where they went, and what failed.",
    rows=(_REQUESTS, _REPLICAS, _CANARIES, _KEYS),
    chooses_model=False,
)
