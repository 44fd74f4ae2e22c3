"""Fleet: does any model need attention?"""

from mm_observability.dashboards.dashboard import (
    FULL,
    FULL_IS_BAD,
    GOOD_ABOVE,
    NONE_IS_GOOD,
    QUARTER,
    THIRD,
    Dashboard,
    Query,
    panel,
    row,
)
from mm_observability.dashboards.shared import FINISHED_REQUESTS, WHO
from mm_observability.queries import latency, models, server, traffic
from mm_observability.queries.select import CHOSEN

_COUNTS = row(
    "Overview",
    panel(
        "Models ready",
        "Models that can serve now.",
        Query(models.count_that_hold("Ready", CHOSEN)),
    ),
    panel(
        "Models not ready",
        "Models that cannot; the table says why.",
        Query(models.count_that_fail("Ready", CHOSEN)),
        steps=NONE_IS_GOOD,
        runbook="MultimodalModelUnavailable",
    ),
    panel(
        "Models degraded",
        "Models that need a person.",
        Query(f"{models.count_that_hold('Degraded', CHOSEN)}"),
        steps=NONE_IS_GOOD,
    ),
    panel(
        "Lowest SLO attainment",
        "The worst share of requests within an objective, over all models.",
        Query(f"min({latency.met_share(CHOSEN)})"),
        unit="percentunit",
        steps=GOOD_ABOVE,
        most=1,
        runbook="MultimodalLatencyBudgetBurnsFast",
    ),
    width=QUARTER,
    kind="stat",
)

_MODELS = row(
    "Models",
    panel(
        "Conditions",
        "Whether each model is Ready, and the reason; its name leads to its dashboard.",
        Query(models.condition("Ready", CHOSEN), "Ready"),
        kind="table",
    ),
    panel(
        "Replicas",
        "Desired and ready replicas of each model.",
        Query(models.replicas("desired", CHOSEN), f"{WHO} desired"),
        Query(models.replicas("ready", CHOSEN), f"{WHO} ready"),
        dashed=".* desired",
    ),
    panel(
        "SLO attainment",
        "Share of the last 5 minutes' requests within each objective.",
        Query(latency.met_share(CHOSEN), f"{WHO} {{{{objective}}}}"),
        unit="percentunit",
        most=1,
        runbook="MultimodalLatencyBudgetBurnsFast",
    ),
    panel(
        "Error budget burn rate",
        "1 is exactly what the objective allows; above it for long, the objective is lost.",
        Query(latency.budget_burn("1h", CHOSEN), f"{WHO} {{{{objective}}}}"),
        runbook="MultimodalLatencyBudgetBurnsSlowly",
    ),
)

_TRAFFIC = row(
    "Traffic",
    FINISHED_REQUESTS,
    panel(
        "Failed requests",
        "Share of requests that ended with a status of 500 or above.",
        Query(traffic.failed_share(CHOSEN), WHO),
        unit="percentunit",
        runbook="MultimodalRequestsFail",
    ),
    panel(
        "Pinned memory pool",
        "Of the fullest pod of each model.",
        Query(server.pinned_pool_share(CHOSEN), WHO),
        unit="percentunit",
        steps=FULL_IS_BAD,
        most=1,
        runbook="MultimodalPoolExhausted",
    ),
    panel(
        "Generated tokens",
        "Tokens per second of each model.",
        Query(traffic.output_tokens(CHOSEN), WHO),
        unit="tokens/s",
        width=FULL,
        stacked=True,
    ),
    width=THIRD,
)

DASHBOARD = Dashboard(
    uid="multimodal-fleet",
    title="Multimodal / Fleet",
    description="Every model: what is ready, who misses an objective, where requests fail.",
    rows=(_COUNTS, _MODELS, _TRAFFIC),
)
