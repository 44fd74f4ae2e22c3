"""The record that describes a family."""

from collections.abc import Callable
from dataclasses import dataclass

from mm_api.documents.model_facts import VisionFacts


@dataclass(frozen=True, slots=True)
class Family:
    """Facts and formulas of one family.

    `default_input_tokens` and `default_output_tokens` are what a request gets when the spec names
    no limit and the checkpoint has positions for them. `template_tokens` is the most that the
    family's own wrapper adds around a prompt. `pool_factor` is the room for
    fragmentation in the CUDA pool.
    """

    name: str
    architectures: tuple[str, ...]
    features_per_image: Callable[[VisionFacts], int]
    """Rows of the prompt table that one image becomes."""
    default_input_tokens: int
    default_output_tokens: int
    template_tokens: int
    pool_factor: float
