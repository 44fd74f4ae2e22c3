"""Builds: which run, how long each step takes, what fails, what is spared."""

from mm_observability.dashboards.dashboard import (
    NONE_IS_GOOD,
    QUARTER,
    Dashboard,
    Query,
    panel,
    row,
)
from mm_observability.dashboards.shared import percentiles
from mm_observability.queries import builds, models
from mm_observability.queries.select import CHOSEN

_HOUR = "1h"

_NOW = row(
    "Now",
    panel(
        "Models being built",
        "Models whose engine is being built, or waits to be.",
        Query(f"count({models.building(CHOSEN)}) or vector(0)"),
        runbook="MultimodalBuildStuck",
    ),
    panel(
        "Models whose build failed",
        "Their condition EngineBuilt says why.",
        Query(f"count({models.build_failed(CHOSEN)}) or vector(0)"),
        steps=NONE_IS_GOOD,
        runbook="MultimodalBuildFailed",
    ),
    panel(
        "Waiting for another build",
        "Models that wait for another one's build of the same engine.",
        Query(builds.waiting()),
    ),
    panel(
        "Reused engines, share",
        "Share of reuses among reuses and builds of the shown time.",
        Query(builds.reused_share()),
        unit="percentunit",
        most=1,
    ),
    width=QUARTER,
    kind="stat",
)

_DURATIONS = row(
    "Durations",
    panel(
        "Step duration",
        "Median and 95th percentile of each step's duration.",
        *percentiles(builds.step_seconds, "{{step}} ", 0.5, 0.95),
        unit="s",
        runbook="MultimodalBuildStuck",
    ),
    panel(
        "Build duration",
        "Median and 95th percentile by outcome.",
        *percentiles(builds.build_seconds, "{{outcome}} ", 0.5, 0.95),
        unit="s",
    ),
)

_OUTCOMES = row(
    "Per hour",
    panel(
        "Finished builds",
        "Builds that ended, by outcome.",
        Query(builds.ended(window=_HOUR), "{{outcome}}"),
        stacked=True,
    ),
    panel(
        "Failed builds",
        "By step and reason.",
        Query(builds.failures(window=_HOUR), "{{step}} {{reason}}"),
        stacked=True,
        runbook="MultimodalBuildFailed",
    ),
    panel(
        "Reused engines",
        "Models that took an engine that was there, by where it came from.",
        Query(builds.reuses(window=_HOUR), "{{origin}}"),
        stacked=True,
    ),
    panel(
        "Bytes built",
        "Size of the engines that were built.",
        Query(builds.bytes_built(window=_HOUR), "bytes"),
        unit="bytes",
    ),
    width=QUARTER,
)

DASHBOARD = Dashboard(
    uid="multimodal-builds",
    title="Multimodal / Builds",
    description="Builds of engines: durations by step, failures, reuse, waiters.",
    rows=(_NOW, _DURATIONS, _OUTCOMES),
)
