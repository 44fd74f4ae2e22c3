"""Every alert. What a label holds is quoted in the texts, so that a page names the model."""

from mm_observability.queries import autoscaling, models, operator, router, server, traffic
from mm_observability.queries.select import newest, series
from mm_observability.rules import objectives
from mm_observability.rules.rule import Alert, Group

_WHO = "{{ $labels.namespace }}/{{ $labels.model }}"
_ON_MODEL = "on (namespace, model)"
_ON_OBJECTIVE = "on (namespace, model, objective)"

FEW_REQUESTS = 20
"""In a window with fewer, one slow request would look like a burnt budget."""

HELD_SECONDS = 240
"""Four of the five minutes after which a router gives a request up by default."""

COLD_START_MARGIN = 1.25
"""Above the week's 95th percentile by less is the noise of a busy node."""


def groups() -> tuple[Group, ...]:
    return (
        Group("multimodal-latency", _burns()),
        Group("multimodal-autoscaling", _autoscaling()),
        Group("multimodal-requests", _requests()),
        Group("multimodal-models", _models()),
        Group("multimodal-operator", _operator()),
        Group("multimodal-router", _router()),
    )


def _burns() -> tuple[Alert, ...]:
    return (
        Alert(
            "MultimodalLatencyBudgetBurnsFast",
            _burning("1h", "5m", objectives.FAST),
            f"{_WHO} misses {{{{ $labels.objective }}}} for most of its requests",
            f"{{{{ $value | humanizePercentage }}}} of the requests to {_WHO} within the last "
            "hour, and as many within the last 5 minutes, were slower than {{ $labels.objective }} "
            "allows.",
            severity="critical",
            lasts="2m",
        ),
        Alert(
            "MultimodalLatencyBudgetBurnsSlowly",
            _burning("6h", "30m", objectives.SLOW),
            f"{_WHO} misses {{{{ $labels.objective }}}} for too many requests",
            f"{{{{ $value | humanizePercentage }}}} of the requests to {_WHO} within the last 6 "
            "hours were slower than {{ $labels.objective }} allows: the month's budget will not "
            "last.",
            lasts="15m",
        ),
    )


def _burning(long: str, short: str, threshold: str) -> str:
    seconds = {"1h": 3600, "6h": 21600}[long]
    enough_requests = f"avg_over_time({objectives.REQUESTS}[{long}]) * {seconds} >= {FEW_REQUESTS}"
    return (
        f"{objectives.BAD}{long} > {_ON_OBJECTIVE} {threshold} "
        f"and {_ON_OBJECTIVE} ({objectives.BAD}{short} > {_ON_OBJECTIVE} {threshold}) "
        f"and {_ON_OBJECTIVE} ({enough_requests})"
    )


def _autoscaling() -> tuple[Alert, ...]:
    missed = f"{objectives.BAD}5m > {_ON_OBJECTIVE} {objectives.BUDGET}"
    full = f"{models.replicas('desired')} >= {_ON_MODEL} {models.replicas('max')}"
    usual = f"{COLD_START_MARGIN} * {autoscaling.cold_start_usual()}"
    return (
        Alert(
            "MultimodalAtMaxAndSlow",
            f"({missed}) and {_ON_MODEL} ({full})",
            f"{_WHO} has all the replicas it may have and still misses {{{{ $labels.objective }}}}",
            f"{_WHO} has spec.autoscaling.maxReplicas replicas and "
            "{{ $value | humanizePercentage }} of its requests are slower than the objective.",
            lasts="10m",
        ),
        Alert(
            "MultimodalAutoscalerBlind",
            autoscaling.blind(),
            f"Autoscaling of {_WHO} finds no metrics",
            f"Prometheus gives the operator nothing about {_WHO}: its replicas are held, or raised "
            "to the fallback, and never lowered.",
        ),
        Alert(
            "MultimodalReplicasFlap",
            f"{autoscaling.reversals()} > 3",
            f"Replicas of {_WHO} go up and down",
            "{{ $value | humanize }} changes of the last hour undid the one before.",
        ),
        Alert(
            "MultimodalColdStartSlow",
            f"{autoscaling.cold_start_total()} > {usual}",
            f"Pods of {_WHO} start slower than they did",
            f"A pod of {_WHO} needs {{{{ $value | humanizeDuration }}}} from scheduled to Ready, "
            "more than within the last week: scaling up comes later than the policy was used to.",
        ),
    )


def _requests() -> tuple[Alert, ...]:
    refused = f"sum by (namespace, model) ({traffic.rejected(window='5m')})"
    every = f"sum by (namespace, model) ({traffic.requests(window='5m')})"
    ready = f"{models.replicas('ready')} > 0"
    return (
        Alert(
            "MultimodalRequestsFail",
            f"{traffic.failed_share(window='5m')} > 0.05",
            f"{_WHO} answers with errors",
            f"{{{{ $value | humanizePercentage }}}} of the requests to {_WHO} end with a status of "
            "500 or above.",
            severity="critical",
        ),
        Alert(
            "MultimodalRequestsRejected",
            f"{refused} / ({every} > 0) > 0.05",
            f"{_WHO} sends requests away",
            f"{{{{ $value | humanizePercentage }}}} of the requests to {_WHO} are refused because "
            "its queue is full.",
            lasts="10m",
        ),
        Alert(
            "MultimodalPoolExhausted",
            f"{server.pinned_pool_share()} > 0.95 or {server.kv_cache_share()} > 0.98",
            f"A memory pool of {_WHO} is full",
            "{{ $value | humanizePercentage }} of the pinned memory or of the key-value cache "
            f"of a pod of {_WHO} is in use: requests fall back to slower copies, or wait.",
        ),
        Alert(
            "MultimodalPoolFull",
            f"{server.full_pools()} > 0",
            f"Servers of {_WHO} have found their {{{{ $labels.pool }}}} pool full",
            f"{{{{ $value }}}} times a server of the running pods of {_WHO} found its "
            "{{ $labels.pool }} pool full; each says it once, however often it happens.",
            lasts="1m",
        ),
        Alert(
            "MultimodalMetricsMissing",
            f"{ready} unless {_ON_MODEL} {traffic.running()}",
            f"No metrics of {_WHO} arrive",
            f"{_WHO} has {{{{ $value }}}} ready replicas and no series of its gateway: objectives "
            "cannot be judged, and autoscaling holds.",
        ),
    )


def _models() -> tuple[Alert, ...]:
    down = f"{models.holds('Available')} == 0"
    return (
        Alert(
            "MultimodalModelUnavailable",
            f"{down} unless {_ON_MODEL} ({models.building()}) unless {_ON_MODEL} "
            f"({models.replicas('desired')} == 0)",
            f"{_WHO} answers no requests",
            f"No replica of {_WHO} has been available for 15 minutes, and no build is under way.",
            severity="critical",
            lasts="15m",
        ),
        Alert(
            "MultimodalBuildFailed",
            models.build_failed(),
            f"The engine of {_WHO} cannot be built",
            f"The build of {_WHO} ended with {{{{ $labels.reason }}}}.",
        ),
        Alert(
            "MultimodalBuildStuck",
            models.building(),
            f"The engine of {_WHO} has been building for hours",
            f"{_WHO} has been waiting for its engine for 4 hours.",
            lasts="4h",
        ),
        Alert(
            "MultimodalCanaryRolledBack",
            models.canary_rolled_back(),
            f"The new revision of {_WHO} was sent back",
            f"The stable revision of {_WHO} answers; status.rollout says why.",
            lasts="0m",
        ),
    )


def _router() -> tuple[Alert, ...]:
    who = "{{ $labels.model }}"
    return (
        Alert(
            "MultimodalRouterRequestsFail",
            f"{router.failed_share(window='10m')} > 0.05",
            f"Requests to {who} fail behind the router",
            f"{{{{ $value | humanizePercentage }}}} of the requests to {who} through the router "
            "end with a status of 500 or above.",
            severity="critical",
        ),
        Alert(
            "MultimodalRouterReplicasEjected",
            f"{router.ejected_share()} > 0.5",
            f"The router leaves replicas of {who} alone",
            f"{{{{ $value | humanizePercentage }}}} of the ready replicas of {who} could not be "
            "reached or failed, as one router sees them.",
        ),
        Alert(
            "MultimodalRequestsHeldTooLong",
            f"{router.held_seconds(window='5m')} > {HELD_SECONDS}",
            f"Requests wait long for a replica of {who}",
            f"A request to {who} has waited {{{{ $value | humanizeDuration }}}} in the router, and "
            "no replica answers it.",
            lasts="0m",
        ),
    )


def _operator() -> tuple[Alert, ...]:
    depth = series("mm_operator_queue_depth")
    pods = f"count by (namespace) ({newest(series('mm_operator_leader'), 'pod')})"
    return (
        Alert(
            "MultimodalOperatorNoLeader",
            f"({operator.leaders()} or vector(0)) < 1",
            "No replica of the operator leads",
            "Nothing reconciles: models keep serving, and no change to any of them has an effect. "
            "No metrics of the operator at all look the same.",
            severity="critical",
            lasts="2m",
        ),
        Alert(
            "MultimodalOperatorTwoLeaders",
            f"{operator.leaders()} > 1 and on () count({pods}) == 1",
            "{{ $value }} replicas of one operator lead",
            "Two replicas write at the same time; a replica whose clock has stopped looks so too.",
            severity="critical",
            lasts="2m",
        ),
        Alert(
            "MultimodalOperatorNamespaceRefused",
            f"{operator.namespaces_refused()} > 0",
            "The operator in {{ $labels.namespace }} refuses {{ $value }} namespaces",
            "Another installation of the operator serves them; both are set to.",
            lasts="10m",
        ),
        Alert(
            "MultimodalOperatorNamespaceMissing",
            f"{operator.namespaces_missing()} > 0",
            "The operator in {{ $labels.namespace }} leaves out {{ $value }} namespaces",
            "They are set to be served and did not exist when it was installed or upgraded: models "
            "in them are ignored until the next upgrade.",
            lasts="1h",
        ),
        Alert(
            "MultimodalOperatorReconcileErrors",
            f"{operator.failed_share(window='10m')} > 0.1",
            "Reconciles fail",
            "{{ $value | humanizePercentage }} of the reconciles end with an error.",
            lasts="15m",
        ),
        Alert(
            "MultimodalOperatorFallsBehind",
            f"max(min_over_time({depth}[15m])) > 10",
            "{{ $value }} models wait for the operator",
            "More than 10 models have been waiting for a reconcile for 15 minutes.",
        ),
        Alert(
            "MultimodalOperatorLoopStalls",
            f"{operator.loop_stalled_share(window='10m')} > 0.1",
            "The operator's event loop is blocked",
            "{{ $value | humanizePercentage }} of the time one computation holds up all others.",
            lasts="10m",
        ),
    )
