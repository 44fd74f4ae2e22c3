"""PURE: how large each free size of a vision engine's inputs may get."""

from dataclasses import dataclass

from mm_api.documents.build_plan import VisionPlan
from mm_api.documents.model_facts import VisionFacts
from mm_runtime.errors import PermanentError


@dataclass(frozen=True, slots=True)
class Range:
    """Sizes that the engine accepts; it is fastest at `usual`."""

    least: int
    usual: int
    most: int


def profile(name: str, plan: VisionPlan, facts: VisionFacts) -> Range:
    """Return the range of one free size, by the name that the export gave it.

    Raises:
        PermanentError: no such name.
    """
    if name == "batch":
        return Range(1, max(1, plan.max_batch_size // 2), plan.max_batch_size)
    if name == "patches" and facts.min_pixels and facts.max_pixels:
        pixels = facts.patch_size**2
        merged = (facts.merge_size or 1) ** 2
        least, most = facts.min_pixels // pixels, facts.max_pixels // pixels
        # Every image is complete blocks of merged patches.
        usual = (least + most) // 2 // merged * merged
        return Range(max(merged, least), max(merged, usual), max(merged, most))
    raise PermanentError(
        f"The exported vision model has a free size {name!r}; expected batch or patches."
    )
