"""Llama 3.2 Vision: cross-attention layers read the image (#commands, #sizing, #crossing)."""

from mm_api.checkpoint.dimensions import Dimensions
from mm_api.checkpoint.text import text_facts
from mm_api.checkpoint.values import JsonObject, Sizes, section
from mm_api.checkpoint.vision import image_token, tower_facts
from mm_api.documents.model_facts import VisionFacts
from mm_api.families.family import (
    BYTES_TENSORS,
    ENSEMBLE,
    Embeddings,
    Family,
    ImageLayout,
    Kind,
    PyTorchServing,
    Recipe,
    Serving,
)
from mm_api.families.prompt import IMAGES, PLAIN_CHAT, TEXT, PromptStyle


def tile_positions(vision: VisionFacts) -> int:
    """Return (side / patch)^2 + 1: 560 pixels are 1601."""
    return (vision.image_size // vision.patch_size) ** 2 + 1


def features_per_image(vision: VisionFacts) -> int:
    """Return tiles x positions: 4 x 1601 = 6404 at 560 pixels, 4 x 1025 = 4100 at 448."""
    return (vision.max_tiles or 1) * tile_positions(vision)


TOWER = {
    "hidden_size": 1280,
    "intermediate_size": 5120,
    "num_hidden_layers": 32,
    "attention_heads": 16,
    "image_size": 448,
    "patch_size": 14,
    "max_num_tiles": 4,
}


def read(config: JsonObject, processor: JsonObject) -> Dimensions:
    """Return the parts of a Llama 3.2 Vision checkpoint: images are read by cross attention."""
    text = section(config, "text_config") or {}
    cross_attention = text.get("cross_attention_layers") or []
    size = Sizes(section(config, "vision_config") or {}, TOWER, "vision_config")
    tiles = size("max_num_tiles", processor.get("max_image_tiles"))
    positions = (size("image_size") // size("patch_size")) ** 2 + 1
    vision = tower_facts(
        size, heads="attention_heads", features_per_image=tiles * positions, max_tiles=tiles
    )
    facts = text_facts(text, cross_attention_layers=len(cross_attention))
    return Dimensions(facts, vision, image_token_id=image_token(config))


MLLAMA = Family(
    name="mllama",
    title="Llama 3.2 Vision",
    architectures=("MllamaForConditionalGeneration",),
    model_type="mllama",
    read=read,
    kind=Kind.CROSS_ATTENTION,
    dtypes=("bfloat16",),
    dtype_reason="bfloat16 is the only type in upstream's support list",
    embeddings=Embeddings(extra_rows=8),
    recipe=Recipe(converter="mllama", build_flags=(("gemm_plugin", "auto"),), vision_type="mllama"),
    image_layout=ImageLayout.TILES,
    prompt=PromptStyle(
        IMAGES + "<|image|>{% endfor %}" + TEXT + "{% endfor %}",
        "<|image|>",
        chat=PLAIN_CHAT.replace("MARK", "<|image|>"),
    ),
    serving=Serving(ENSEMBLE, BYTES_TENSORS, "{text}"),
    features_per_image=features_per_image,
    # One entry of the batch is a complete image: its tiles attend to each other.
    positions_per_tile=features_per_image,
    # The mask of cross attention is BOOL on the GPU: one byte per token of both sides.
    extra_output_bytes=lambda sequence, _head, tokens: sequence * tokens,
    masked_vision=True,
    default_input_tokens=1536,  # upstream's documented engine: sequences of 2048
    default_output_tokens=512,
    template_tokens=1,  # the text must hold the image tag itself
    fixed_features=True,
    tiles_per_image=lambda _: 1,  # an entry of the batch is an image
    quantizations=("FP8", "INT8WeightOnly", "INT4WeightOnly"),
    pytorch=PyTorchServing(images=False, quantizations=("FP8",)),
    adapters=True,
    notes=(
        "no max_multimodal_len: encoder tokens are bounded by max_encoder_input_len",
        "only through the ensemble: the BLS model does not pass the mask of cross attention on",
        (
            "the base Llama-3.2-11B-Vision has 448 pixels, 4100 encoder tokens; the guide pairs it "
            "with Instruct's 6404"
        ),
        "the text must hold the image tag itself",
    ),
)
