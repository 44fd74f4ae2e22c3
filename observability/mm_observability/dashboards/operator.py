"""Operator: does it lead, keep up, and get what it requests?"""

from mm_observability.dashboards.dashboard import (
    FEW_IS_GOOD,
    HALF,
    QUARTER,
    SOME_IS_GOOD,
    THIRD,
    Dashboard,
    Query,
    panel,
    row,
)
from mm_observability.dashboards.shared import percentiles
from mm_observability.queries import operator

_COUNTS = row(
    "Overview",
    panel(
        "Leaders",
        "Exactly one replica writes.",
        Query(operator.leaders()),
        steps=SOME_IS_GOOD,
        runbook="MultimodalOperatorNoLeader",
    ),
    panel(
        "Queue depth",
        "Models that wait for a reconcile.",
        Query(operator.queue_depth()),
        runbook="MultimodalOperatorFallsBehind",
    ),
    panel(
        "Failed reconciles",
        "Share of reconciles that ended with an error.",
        Query(operator.failed_share()),
        unit="percentunit",
        steps=FEW_IS_GOOD,
        runbook="MultimodalOperatorReconcileErrors",
    ),
    panel(
        "Leader over time",
        "1 for the pod that leads: a change is a hand-over or a fail-over.",
        Query(operator.leader_pods(), "{{pod}}"),
        kind="state",
    ),
    width=QUARTER,
    kind="stat",
)

_WORK = row(
    "Work",
    panel(
        "Reconciles",
        "Per second by result; at rest there are none.",
        Query(operator.reconciles(), "{{result}}"),
        unit="ops",
        stacked=True,
    ),
    panel(
        "Reconcile duration",
        "Mostly waiting for the API server.",
        *percentiles(operator.reconcile_seconds, "", 0.5, 0.95, 0.99),
        unit="s",
    ),
    panel(
        "Errors by stage",
        "Per second by stage of the reconcile.",
        Query(operator.errors(), "{{stage}}"),
        unit="ops",
        runbook="MultimodalOperatorReconcileErrors",
    ),
    panel(
        "API requests",
        "Per second by verb and resource; at rest only leases and watches.",
        Query(operator.api_requests(), "{{verb}} {{resource}}"),
        unit="reqps",
        width=HALF,
        stacked=True,
    ),
    panel(
        "Failed API requests",
        "Per second; codes 404 and 409 are part of normal work and not counted.",
        Query(operator.api_failures(), "{{resource}} {{code}}"),
        unit="reqps",
        width=HALF,
        runbook="MultimodalOperatorReconcileErrors",
    ),
    width=THIRD,
)

_COST = row(
    "Resources",
    panel(
        "Event loop lag",
        "99 % of what is due comes no later than this; aimed at: 50 ms.",
        Query(operator.loop_lag_seconds(0.99), "{{pod}}"),
        unit="s",
        runbook="MultimodalOperatorLoopStalls",
    ),
    panel(
        "Event loop blocked",
        "Share of the time for which one coroutine holds up all the others.",
        Query(operator.loop_stalled_share()),
        unit="percentunit",
        runbook="MultimodalOperatorLoopStalls",
    ),
    panel(
        "Memory",
        "Resident memory of each replica.",
        Query(operator.memory_bytes(), "{{pod}}"),
        unit="bytes",
    ),
    panel(
        "CPU",
        "Cores that each replica uses.",
        Query(operator.cpu_cores(), "{{pod}}"),
    ),
)

DASHBOARD = Dashboard(
    uid="multimodal-operator",
    title="Multimodal / Operator",
    description="Reconciles, the queue, API requests, the leader, and what all of it costs.",
    rows=(_COUNTS, _WORK, _COST),
    chooses_model=False,
)
