"""How many images a vision encoder without a GPU runs at once, and the attention scores it stores.

Operator and runtime follow the same rule: what is planned is what runs.
"""

from mm_api.documents.model_facts import VisionFacts
from mm_api.families.family import Family
from mm_api.v1alpha1.vision import VisionEngine

SCORE_COPIES = 3
"""Products store their scores, scaled ones and their softmax. Peaks of a process (resident, ONNX
Runtime 1.31) above its weights, in copies: 2.7 for 64 MiB of scores, 1.4 to 2.2 for 324 to 1,024
MiB of towers of 16 heads (tests/mm_operator/plan/engine has the numbers)."""

SCORES_OF_A_RUN = 256 << 20
"""One copy of the scores of one run: images beyond it wait for the next one. A processor gains
nothing from larger batches: 4 images of 2,304 patches took 4 times as long as one."""

_SCORE_BYTES = 4
_HEAD_SIZE = 64
"""Assumed for towers whose configuration was read before it named their heads."""


def heads_of(vision: VisionFacts) -> int:
    return vision.attention_heads or max(1, vision.hidden_size // _HEAD_SIZE)


def score_bytes(family: Family, vision: VisionFacts, engine: VisionEngine) -> int:
    """Return one copy of the scores of the largest image or tile; 0: the engine stores none."""
    if not family.has_tower:
        return 0  # transformers' attention is one operation
    if engine != "ONNXRuntime" and not family.layout.stores_scores:
        return 0
    return heads_of(vision) * family.layout.positions_per_tile(vision) ** 2 * _SCORE_BYTES


def entries_of_a_run(family: Family, vision: VisionFacts, engine: VisionEngine, most: int) -> int:
    """Return how many images or tiles run at once on a processor; `most` is the plan's."""
    scores = score_bytes(family, vision, engine)
    return max(1, min(most, SCORES_OF_A_RUN // scores)) if scores else most
