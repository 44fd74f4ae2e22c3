"""Reads the small files of a checkpoint and says what it is: `ModelFacts`, or why it is refused.

Belongs here: config.json of every family to dimensions, weight headers to bytes, refusals with what
to do. Must not: load a weight, import torch or transformers, run code of the checkpoint. May
import: `mm_api`, `mm_runtime.build.source` (the digest both commands share) and the standard
library.
"""
