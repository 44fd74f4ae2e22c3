"""Sizing of TensorRT-LLM engines: spec, checkpoint, GPU and image to one `ModelPlan`.

Belongs here: limits, dtypes, bytes per GPU, pools, argument vectors, the verdict and what would
fit instead, checks that need no GPU. Must not: do I/O beyond its own package data, read the clock,
know Kubernetes objects. May import: `mm_api`, `mm_operator.errors`,
`mm_operator.plan.pools`, `mm_operator.plan.draft`. `#name` beside a formula is a section of
docs/planning-sources.md, which has the public sources.
"""
