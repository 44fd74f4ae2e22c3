"""What a pod is doing before it is ready, in the words of its `/readyz` and of `mm_pod_phase`."""

from enum import StrEnum


class Phase(StrEnum):
    """From the start of a pod, or of its server, to readiness."""

    LOADING = "Loading"
    """The server has not loaded its models, or has gone."""

    WARMING_UP = "WarmingUp"
    """It receives the warm-up requests, and then the one that it must answer."""

    READY = "Ready"
    """It has answered them all, and answers now."""
