"""The Reference language-model engine: transformers' model under real in-flight batching.

Belongs here: one decode step for many requests, their key-value slots, sampling, stop rules. Must
not: know Triton, tokenize, encode images. Alone in the runtime's serving path it may import torch
and transformers; `progress` does not, so it is importable anywhere. May import:
mm_runtime.serving, mm_runtime.adapters.
"""
