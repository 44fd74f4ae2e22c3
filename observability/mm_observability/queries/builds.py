"""Builds of engines. Series are per step, outcome or origin: engines are shared between models."""

from mm_observability.queries.select import RANGE, increase, series

_SECONDS = "mm_operator_build_seconds"
_STEP_SECONDS = "mm_operator_build_step_seconds"


def step_seconds(share: float) -> str:
    """Return the duration that `share` of the runs of each step kept since the operator started.

    Builds are rare, and a step's series begins with its first run, which no increase would count.
    """
    return f"histogram_quantile({share}, sum by (step, le) ({_STEP_SECONDS}_bucket))"


def build_seconds(share: float) -> str:
    """Return the same for entire builds, by outcome."""
    return f"histogram_quantile({share}, sum by (outcome, le) ({_SECONDS}_bucket) > 0)"


def ended(*, window: str = RANGE) -> str:
    """Return how many builds ended, by outcome."""
    return f"sum by (outcome) ({increase(f'{_SECONDS}_count', window=window)})"


def failures(*, window: str = RANGE) -> str:
    """Return how many builds failed, by step and reason."""
    grown = increase("mm_operator_build_failures_total", window=window)
    return f"sum by (step, reason) ({grown})"


def reuses(*, window: str = RANGE) -> str:
    """Return how many models took an engine that was there, by where it came from."""
    grown = increase("mm_operator_engine_reuses_total", window=window)
    return f"sum by (origin) ({grown})"


def reused_share() -> str:
    """Return the share of engines that needed no build: reuses among reuses and builds."""
    reused = f"sum({increase('mm_operator_engine_reuses_total')})"
    built = f"sum({increase(f'{_SECONDS}_count')})"
    return f"{reused} / (({reused} + {built}) > 0)"


def bytes_built(*, window: str = RANGE) -> str:
    return f"sum({increase('mm_operator_engine_bytes_total', window=window)})"


def waiting() -> str:
    return f"max({series('mm_operator_builds_waiting')})"
