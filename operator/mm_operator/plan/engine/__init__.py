"""The engine planner: spec, checkpoint, GPU and image to limits, bytes, commands and documents.

Belongs here: limits, dtypes, bytes per GPU, pools, argument vectors, the verdict and what would
fit instead, checks that need no GPU. Must not: do I/O beyond its own package data, read the clock,
know Kubernetes objects or the stages of a reconcile. May import: `mm_api`, `mm_operator.model`,
`mm_operator.errors`, `mm_operator.names`, `mm_operator.digests`, `mm_operator.addresses`; nothing
else of `mm_operator.plan`. `#name` beside a formula is a section of
docs/design/planning-sources.md, which has the public sources.
"""
