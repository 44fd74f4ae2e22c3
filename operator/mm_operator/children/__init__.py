"""Builders: from snapshot and plan to full Kubernetes objects.

Belongs here: one file per child and purpose; each builder returns the full object or None when the
object must not exist or stays as it is. Must not: decide, do I/O, read the clock. May import:
`mm_api`, `mm_operator.model`, `mm_operator.plan`.
"""
