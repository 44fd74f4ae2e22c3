"""Encoders in pods of their own, or the language model: which of the two is too slow for the other?

From what pods measured, else from the weights that an image passes through. Pure.
"""

from collections.abc import Mapping
from math import ceil
from typing import Any

from mm_api.documents.model_facts import ModelFacts
from mm_api.families.family import Family
from mm_operator.plan.engine.encoder_memory import vision_parameters
from mm_operator.plan.engine.weights import text_parameters

_TERA = 1e12


def estimated(facts: ModelFacts, family: Family, features: int) -> str:
    """Return the sentence before anything is measured; `features`: rows that one image becomes."""
    vision = facts.vision
    assert vision is not None  # noqa: S101  # called where there are encoders
    positions = max(
        family.layout.positions_per_tile(vision), features * (vision.merge_size or 1) ** 2
    )
    encoder = 2 * vision_parameters(facts, family) * positions / _TERA
    model = 2 * text_parameters(facts, family) * features / _TERA
    if not encoder or not model:
        return ""
    return (
        f"an image takes {encoder:.3g} TFLOP in an encoder and {model:.3g} in the language model, "
        f"answers not counted; {_verdict(1 / encoder, 1 / model)} on equal hardware (estimated "
        "from their weights; measured once images have come)"
    )


def measured(status: Mapping[str, Any]) -> str:
    """Return the sentence from a model's `status`; empty where encoders have measured nothing."""
    scaling = status.get("scaling") or {}
    encoder = ((status.get("encoders") or {}).get("scaling") or {}).get("work") or {}
    work, features = scaling.get("work"), (status.get("plan") or {}).get("featuresPerImage", 0)
    encoding = features * encoder.get("imageTokenSeconds", 0.0)
    if not encoding:
        return ""
    encoder_rate = f"encoder: {1 / encoding:.3g} images/s per replica"
    if not work:
        return f"{encoder_rate} (measured); of the language model nothing is measured yet"
    tokens = (scaling.get("inputs") or {}).get("meanOutputTokens", 0.0)
    seconds = work["requestSeconds"] + features * work["imageTokenSeconds"]
    seconds += tokens * work["outputTokenSeconds"]
    return (
        f"{encoder_rate}; language model: {1 / seconds:.3g} images/s per replica, each with an "
        f"answer of {tokens:.0f} tokens; {_verdict(1 / encoding, 1 / seconds)} (measured)"
    )


def _verdict(encoder: float, model: float) -> str:
    """Return which of two rates is the bottleneck, and how many feed how many."""
    if encoder < model:
        return f"bottleneck: encoder, {ceil(model / encoder - 0.01)} encoder replicas feed one"
    feeds = int(encoder / model + 0.01)
    return f"bottleneck: language model, one encoder replica feeds {feeds}"
