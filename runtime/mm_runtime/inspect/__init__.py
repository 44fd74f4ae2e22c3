"""Reads the small files of a checkpoint and says what it is: `ModelFacts`, or why it is refused.

Belongs here: small files and weight headers to bytes, refusals with what to do. Must not: load a
weight, import torch or transformers, run code of the checkpoint. May import: `mm_api` (its
`mm_api.checkpoint` knows every family's dimensions), `mm_runtime.base`, `mm_runtime.errors`,
`mm_runtime.sources` and the standard library.
"""
