"""A spec for TensorRT engines as one for TensorRT-LLM on PyTorch, and what becomes of each field.

Belongs here: which fields change, why, and when there is no such spec. Pure. Must not: read files
or plan. May import: `mm_api`, and of the operator its tables.
"""
