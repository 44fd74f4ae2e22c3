"""The model `tensorrt_llm`: tensors of a request to an engine request, an answer to tensors.

Belongs here: the request and its answer as plain values, which engines and tests share; gauges of
running requests. Must not: know an engine, import torch.
"""
