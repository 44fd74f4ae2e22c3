"""A kubelet's probe that comes before the first readiness waits for it, for less than its period.

Answered at once, the pod would be unready until the next turn of the probe: half a second on
average in each container of a pod, of which the second one starts after the first.
"""

from typing import Final

HOLD_SECONDS: Final = 0.8
"""Kubernetes' shortest period is a second: each turn still counts, and fails in its own period."""

_KUBELET: Final = "kube-probe/"
"""How its User-Agent begins, then the version of Kubernetes."""


def hold_seconds(user_agent: str | None) -> float:
    """Return for how long a request may wait for readiness; 0 where no kubelet sends it."""
    return HOLD_SECONDS if (user_agent or "").startswith(_KUBELET) else 0.0
