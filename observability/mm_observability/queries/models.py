"""What the leading operator says of each model."""

from mm_observability.queries.select import ALL, newest, series

BUILD_IN_PROGRESS = "WaitingForPlan|BuildPending|Building|BuildSucceeded"
"""Reasons of EngineBuilt that are no failure."""


def condition(kind: str, labels: str = ALL) -> str:
    """Return 1 for each model whose condition is True, else 0, with its reason."""
    return newest(series("mm_model_condition", labels, f'condition="{kind}"'), "reason")


def holds(kind: str, labels: str = ALL) -> str:
    """Return 1 for each model whose condition is True, else 0."""
    return newest(series("mm_model_condition", labels, f'condition="{kind}"'))


def count_that_hold(kind: str, labels: str = ALL) -> str:
    """Return in how many models a condition is True (one series)."""
    return f"sum({holds(kind, labels)})"


def count_that_fail(kind: str, labels: str = ALL) -> str:
    """Return in how many models a condition is not True (one series)."""
    return f"count({holds(kind, labels)} == 0) or vector(0)"


def replicas(state: str, labels: str = ALL) -> str:
    """Return the replicas of each model in a state: desired, ready, min or max."""
    return newest(series("mm_model_replicas", labels, f'state="{state}"'))


def build_failed(labels: str = ALL) -> str:
    """Return a series for each model whose build ended without an engine."""
    reasons = f'condition="EngineBuilt",reason!~"{BUILD_IN_PROGRESS}"'
    return f"{newest(series('mm_model_condition', labels, reasons), 'reason')} == 0"


def canary_rolled_back(labels: str = ALL) -> str:
    """Return a series for each model whose new revision was sent back."""
    reason = 'condition="Degraded",reason="CanaryRolledBack"'
    return f"{newest(series('mm_model_condition', labels, reason))} == 1"


def building(labels: str = ALL) -> str:
    """Return a series for each model whose engine is being built or waits to be."""
    reasons = 'condition="EngineBuilt",reason=~"Building|BuildPending"'
    return f"{newest(series('mm_model_condition', labels, reasons))} == 0"
