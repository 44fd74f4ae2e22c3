"""PURE: whether it matters to a checkpoint when the frames of a video are."""

from mm_api.documents.model_facts import ModelFacts


def reads_times(facts: ModelFacts) -> bool:
    """Return whether positions of frames follow from their times."""
    return facts.vision is not None and facts.vision.tokens_per_second is not None
