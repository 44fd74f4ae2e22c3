"""LLaVA 1.5: a CLIP tower whose every patch becomes one row of the prompt table (#features)."""

from mm_api.documents.model_facts import VisionFacts
from mm_api.families.family import (
    ENSEMBLE,
    FIXED_SIZE_FACTOR,
    IMAGE_TENSORS,
    BlockStyle,
    Embeddings,
    Family,
    Kind,
    Recipe,
    Serving,
)

LLAMA_STYLE = BlockStyle(gated=True)
LLAMA_QUANTIZATIONS = ("FP8", "INT8WeightOnly", "INT4WeightOnly", "INT4AWQ", "SmoothQuant")


def features_per_image(vision: VisionFacts) -> int:
    """Return (side / patch)^2, and one more when the class token is kept ("full")."""
    patches = (vision.image_size // vision.patch_size) ** 2
    return patches + (vision.feature_select == "full")


LLAVA = Family(
    name="llava",
    title="LLaVA 1.5",
    architectures=("LlavaForConditionalGeneration",),
    kind=Kind.PROMPT_TABLE,
    dtypes=("float16", "bfloat16", "float32"),
    dtype_reason="upstream's engines are float16",
    style=LLAMA_STYLE,
    embeddings=Embeddings(),
    recipe=Recipe(
        converter="llama", build_flags=(("gemm_plugin", "{dtype}"),), vision_type="llava"
    ),
    serving=Serving(ENSEMBLE, IMAGE_TENSORS, "USER:\\n<image>\\n{text} ASSISTANT:"),
    features_per_image=features_per_image,
    default_input_tokens=2048,  # upstream's documented engine: input 2048, sequence 2560
    default_output_tokens=512,
    template_tokens=16,  # "USER:\n", "\n" and " ASSISTANT:" with the start token
    pool_factor=FIXED_SIZE_FACTOR,
    pipeline_parallel=True,
    quantizations=LLAMA_QUANTIZATIONS,
    notes=(
        (
            "upstream's vision wrapper always drops the class token: select strategy 'full' is not "
            "served by TensorRT engines"
        ),
        "LLaVA's original layout (mm_vision_tower) is refused: it loads without a vision tower",
    ),
)
