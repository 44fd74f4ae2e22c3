"""From the configuration files of a checkpoint, as parsed JSON, to dimensions.

Belongs here: which family a config.json is of, where each family keeps its sizes, which defaults a
missing key stands for, and refusals. Must not: touch a disk, judge weights, plan. May import:
`mm_api.base`, `mm_api.documents`. The inspect Job and `mmctl plan --checkpoint` share it.
"""

from mm_api.checkpoint.family import KNOWN_FAMILIES, detect, resolve
from mm_api.checkpoint.read import Dimensions, read
from mm_api.checkpoint.values import CheckpointError, JsonObject

__all__ = [
    "KNOWN_FAMILIES",
    "CheckpointError",
    "Dimensions",
    "JsonObject",
    "detect",
    "read",
    "resolve",
]
