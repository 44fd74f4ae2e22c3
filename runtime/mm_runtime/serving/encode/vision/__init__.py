"""Vision engines: tensors of `processors` in, what the language model takes of images out.

Belongs here: sessions of ONNX Runtime and torch, one encoder for each way families put features
together, and how images of several requests share one run. Must not: resize or normalise, know
Triton. Only runners of a device import torch; a plan whose engine computes there loads them.
"""
