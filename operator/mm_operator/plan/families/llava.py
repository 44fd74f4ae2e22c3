"""LLaVA 1.5: a CLIP tower whose every patch becomes one row of the prompt table."""

from mm_api.documents.model_facts import VisionFacts
from mm_operator.plan.families.family import Family
from mm_operator.plan.pools import FIXED_SIZE_FACTOR


def features_per_image(vision: VisionFacts) -> int:
    """Return (side / patch)^2, and one more when the class token is kept ("full")."""
    patches = (vision.image_size // vision.patch_size) ** 2
    return patches + (vision.feature_select == "full")


LLAVA = Family(
    name="llava",
    architectures=("LlavaForConditionalGeneration",),
    features_per_image=features_per_image,
    default_input_tokens=2048,  # upstream's documented engine: input 2048, sequence 2560
    default_output_tokens=512,
    template_tokens=16,  # "USER:\n", "\n" and " ASSISTANT:" with the start token
    pool_factor=FIXED_SIZE_FACTOR,
)
