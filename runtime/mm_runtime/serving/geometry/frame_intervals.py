"""The interval between frames of a video, from `preprocessing` to the encoder."""

from mm_api.documents.model_facts import ModelFacts

SECOND_PER_GRID_TS = "SECOND_PER_GRID_TS"
"""Output of `preprocessing`, float32 [media]: seconds from one pair of frames to the next."""

SECONDS_PER_GRID = 1.0
"""For a video of unknown length: two frames a second, which the checkpoints' own processors sample.
An image has one frame, and any value."""


def reads_times(facts: ModelFacts) -> bool:
    """Return whether positions of frames follow from their times."""
    return facts.vision is not None and facts.vision.tokens_per_second is not None
