"""Autoscaling: why are there as many replicas as there are?"""

from mm_observability.dashboards.dashboard import FULL, HALF, THIRD, Dashboard, Query, panel, row
from mm_observability.dashboards.shared import BOUNDS, WHO, WITHIN_BOUNDS
from mm_observability.queries import autoscaling, latency
from mm_observability.queries.select import CHOSEN

_OBJECTIVES = row(
    "Objectives",
    panel(
        "SLO attainment and objective",
        "Share of requests within each objective; dashed: the percentile of the spec.",
        Query(latency.met_share(CHOSEN), f"{WHO} {{{{objective}}}}"),
        Query(latency.wanted_share(CHOSEN), f"{WHO} {{{{objective}}}} objective"),
        unit="percentunit",
        dashed=".* objective",
        most=1,
        runbook="MultimodalLatencyBudgetBurnsFast",
    ),
    width=FULL,
)

_DECISIONS = row(
    "Decisions",
    panel(
        "Replicas: recommended, requested, ready",
        "The policy's number, the spec's number, pods that answer, and the bounds.",
        Query(autoscaling.desired(CHOSEN), f"{WHO} recommended by the policy"),
        Query(autoscaling.applied(CHOSEN), f"{WHO} requested"),
        *WITHIN_BOUNDS,
        width=HALF,
        dashed=BOUNDS,
        runbook="MultimodalAtMaxAndSlow",
    ),
    panel(
        "Vetoes",
        "Ticks per second at which something forbade a change.",
        Query(autoscaling.vetoes(CHOSEN), f"{WHO} {{{{veto}}}}"),
        unit="ops",
        width=HALF,
        stacked=True,
    ),
    panel(
        "Scaling changes, last hour",
        "Changes of the last hour by direction.",
        Query(autoscaling.changes(CHOSEN), f"{WHO} {{{{direction}}}}"),
    ),
    panel(
        "Reversals, last hour",
        "Changes of the last hour that undid the one before: every one is a waste.",
        Query(autoscaling.reversals(CHOSEN), WHO),
        runbook="MultimodalReplicasFlap",
    ),
    panel(
        "Cold start by phase",
        "Median of the last starts by phase: what scaling up has to look ahead.",
        Query(autoscaling.cold_start(CHOSEN), f"{WHO} {{{{phase}}}}"),
        unit="s",
        runbook="MultimodalColdStartSlow",
    ),
    width=THIRD,
)

_LOOP = row(
    "Inputs",
    panel(
        "Work per request and token",
        "As the pods measured it before they were Ready; nothing: slots are counted.",
        Query(autoscaling.work(CHOSEN), f"{WHO} {{{{unit}}}}"),
        unit="s",
    ),
    panel(
        "Age of the last decision",
        "Grows while Prometheus gives nothing; replicas are held meanwhile.",
        Query(autoscaling.decision_age(CHOSEN), WHO),
        unit="s",
        runbook="MultimodalAutoscalerBlind",
    ),
)

DASHBOARD = Dashboard(
    uid="multimodal-autoscaling",
    title="Multimodal / Autoscaling",
    description="Objectives against targets, wanted against ready replicas, vetoes.",
    rows=(_OBJECTIVES, _DECISIONS, _LOOP),
    annotation=Query(autoscaling.changed(CHOSEN), "replicas changed"),
)
