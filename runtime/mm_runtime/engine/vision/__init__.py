"""The vision encoder on ONNX Runtime: pixel values in, rows of the prompt table out.

Belongs here: the session and how pictures of several requests share one run. Must not: resize or
normalise (that is `mm_runtime.engine.preprocess`), know Triton, import torch.
"""
