"""Triton's model repository: what its files say and how they get to disk.

Belongs here: configurations and their text, one module for each model, the shipped Python
models. Must not: start processes, read an engine's weights. May import: `mm_api`; `models/` alone
imports `mm_runtime.serving`, `mm_runtime.reference_engine` and `triton_python_backend_utils`.
"""
