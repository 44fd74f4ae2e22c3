"""Decoders of Llama's shape with fused weights and kernels, for GPUs.

Belongs here: which decoders have that shape, their weights side by side, kernels in Triton's
language and the same in plain torch, passes of fixed shapes with the likeliest token of each row.
Must not: tokenize, draw tokens, know requests. Other decoders are computed by transformers' own
modules (`language_model`). Only `triton_kernels` may import triton, which comes with torch for CUDA
and nowhere else.
"""
