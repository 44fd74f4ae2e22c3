"""BLIP-2 with OPT: the Q-Former's query tokens are the features (#commands, #features)."""

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


def features_per_image(vision: VisionFacts) -> int:
    """Return the number of query tokens, 32."""
    return vision.query_tokens or vision.features_per_image


BLIP2_OPT = Family(
    name="blip2-opt",
    title="BLIP-2 OPT",
    architectures=("Blip2ForConditionalGeneration",),
    kind=Kind.PROMPT_TABLE,
    dtypes=("float16", "bfloat16", "float32"),
    dtype_reason="the checkpoint is stored as float32; upstream's engines are float16",
    style=BlockStyle(qkv_bias=True, dense_bias=True, mlp_bias=True, norm_vectors=2),
    embeddings=Embeddings(position_offset=2),
    recipe=Recipe(
        converter="opt",
        convert_flags=("--model_type", "blip2"),
        build_flags=(("gemm_plugin", "{dtype}"),),
        vision_type="blip2",
    ),
    serving=Serving(ENSEMBLE, IMAGE_TENSORS, "{text}"),
    features_per_image=features_per_image,
    default_input_tokens=924,  # upstream's documented engine: input 924, sequence 1024
    default_output_tokens=100,
    template_tokens=1,  # no wrapper, the start token only
    pool_factor=FIXED_SIZE_FACTOR,
    quantizations=("INT8WeightOnly", "INT4WeightOnly"),
    notes=("with no text in front of it upstream loses a leading `<image>`",),
)
