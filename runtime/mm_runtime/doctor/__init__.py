"""Can this image do the work of a Job or pod, on this node?

Belongs here: what is looked for, what was found, and the sentence about each failure.
Must not: import torch, TensorRT or Triton: versions are read from metadata. May
import: `mm_runtime.launch` for where servers lie, `mm_runtime.base`.
"""
