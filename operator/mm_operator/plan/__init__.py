"""Decisions: from one snapshot to one plan.

Belongs here: what must happen next and why; what an engine is and needs is in `plan.engine`. Must
not: do I/O, read the clock, build Kubernetes objects or status. May import: `mm_api`,
`mm_operator.model`, `mm_operator.errors`, `mm_operator.names`, `mm_operator.digests`,
`mm_operator.addresses`.
"""

from mm_operator.plan.decision import decide

__all__ = ["decide"]
