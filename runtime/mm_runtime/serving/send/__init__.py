"""Responses on their way to Triton: sent after `execute` returned, from threads of their own.

Must not: decide what is answered. Alone with `mm_runtime.serving.triton` and `bls` it knows
Triton's Python backend.
"""
