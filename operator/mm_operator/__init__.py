"""The operator: watches MultimodalModels and makes the cluster match them.

Belongs here: deciding (plan, children, status: pure) and acting (cluster, handlers: I/O). Must not:
import torch, TensorRT or Triton, nor mm_runtime; what crosses over is a document of `mm_api`.
"""
