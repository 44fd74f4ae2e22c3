"""Vision engines: tensors of `processors` in, what the language model takes of images out.

Belongs here: sessions of ONNX Runtime and torch, one encoder for each way families put features
together, and how images of several requests share one run. Must not: resize or normalise, know
Triton. Only `torch_runner` may import torch, and only a plan with `vision.engine: Torch` loads it.
"""
