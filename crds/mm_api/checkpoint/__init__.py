"""Values and dimensions out of the configuration files of a checkpoint, as parsed JSON.

Belongs here: typed reading of values, what several families keep in one way, refusals. Must not:
touch a disk, judge weights, plan, know a family: where each keeps its sizes is in
`mm_api.families`. May import: `mm_api.base`, `mm_api.documents`.
"""

from mm_api.checkpoint.values import CheckpointError, Dimensions, JsonObject

__all__ = ["CheckpointError", "Dimensions", "JsonObject"]
