"""Bytes that images at several scales take beside their tower: states that are joined, a projector.

The language model's and the tower's terms are elsewhere; without scales all of these are 0.
"""

from mm_api.vision_runs import PROJECTED_TILES
from mm_operator.plan.engine.encoder_memory import vision_parameters
from mm_operator.plan.engine.target import Target

_BYTES = 4
"""States are joined, and projected, in float32."""

_JOINED_COPIES = 2
"""Copies of all scales of an image: the array itself, and a line of tiles on its way into it. A
process grew by 248 to 301 MiB with 12 tiles of NVILA-8B, of which the array has 162."""

_PROJECTED_COPIES = 3
"""Copies of what the projector reads: its input, that in blocks, and their norm."""


def joined_bytes(target: Target) -> int:
    """Return what the images of one request are in host memory, from the tower to the projector."""
    vision = target.facts.vision
    if vision is None or not vision.scales:
        return 0
    images = target.spec.engine.max_images_per_request
    tiles = max(target.family.layout.tiles_per_image(vision), images)
    grid = max(vision.max_tiles or 1, images) * len(vision.scales)
    state = target.family.layout.positions_per_tile(vision) * vision.hidden_size
    return state * (tiles + grid * _JOINED_COPIES) * _BYTES


def projecting_bytes(target: Target) -> int:
    """Return the activations of the projector, wherever it computes."""
    vision = target.facts.vision
    if vision is None or not vision.scales:
        return 0
    state = target.family.layout.positions_per_tile(vision) * vision.hidden_size
    return PROJECTED_TILES * state * len(vision.scales) * _PROJECTED_COPIES * _BYTES


def projector_parameters(target: Target) -> int:
    """Return the projector's weights: what the blocks of the tower leave of the vision half."""
    vision = target.facts.vision
    if vision is None or not vision.scales:
        return 0
    width = vision.hidden_size
    inner = vision.intermediate_size or 4 * width
    blocks = vision.layers * (4 * width * width + 2 * width * inner)
    return max(0, vision_parameters(target.facts, target.family) - blocks)
