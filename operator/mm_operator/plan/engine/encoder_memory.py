"""The vision engine on the GPU: its weights, and its activations at the largest profile."""

from mm_api.documents.model_facts import ModelFacts
from mm_api.families.family import Family
from mm_operator.plan.engine.weights import text_parameters

_NUMBER_BYTES = 2
"""Of a weight or an activation."""

_ACTIVATION_COPIES = 8
"""Activations of a running block: its input, three projections, four times the width inside.
Attention is taken as fused, so scores are never stored."""


def vision_engine_bytes(facts: ModelFacts, family: Family) -> int:
    """Return the bytes of tower and projector."""
    return vision_parameters(facts, family) * _NUMBER_BYTES


def vision_parameters(facts: ModelFacts, family: Family) -> int:
    """Return the weights of tower and projector: what the language model leaves of the total."""
    if facts.vision is None:
        return 0
    return max(0, facts.parameters - text_parameters(facts, family))


def vision_activation_bytes(facts: ModelFacts, family: Family, batch: int) -> int:
    """Return the peak of a full batch: blocks, and the attention mask where the engine takes one.

    Qwen2-VL's mask spans every patch of the batch (20,736 patches: 860 MB, #features); mllama's
    spans the tiles of one image.
    """
    vision = facts.vision
    if vision is None or not batch:
        return 0
    positions = family.positions_per_tile(vision)
    blocks = batch * positions * vision.hidden_size * _ACTIVATION_COPIES
    mask = 0
    if family.masked_vision:
        one_sequence = vision.merge_size is not None
        mask = (batch * positions) ** 2 if one_sequence else batch * positions**2
    return (blocks + mask) * _NUMBER_BYTES
