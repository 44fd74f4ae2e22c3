"""Decisions: from one snapshot to one plan.

Belongs here: what must happen next and why, every limit and byte, names and content keys. Must
not: do I/O, read the clock, build Kubernetes objects or status. May import: `mm_api`,
`mm_operator.model`, `mm_operator.errors`.
"""

from mm_operator.plan.decision import decide

__all__ = ["decide"]
