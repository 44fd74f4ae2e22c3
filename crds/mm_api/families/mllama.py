"""Llama 3.2 Vision: cross-attention layers read the image (#commands, #sizing, #crossing)."""

from dataclasses import replace

from mm_api.checkpoint.text import text_facts
from mm_api.checkpoint.values import Dimensions, JsonObject, Sizes, section
from mm_api.checkpoint.vision import image_token, tower_facts
from mm_api.families.checkpoint_files import NO_DECODER
from mm_api.families.family import Family, Kind, PyTorchServing, TensorRTLLM
from mm_api.families.image_layouts.layout import TILES
from mm_api.families.prompt import IMAGES, PLAIN_CHAT, TEXT, PromptStyle
from mm_api.families.text_block import LLAMA

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
    text=replace(LLAMA, extra_rows=8),
    trtllm=TensorRTLLM(
        converter="mllama",
        pipeline_parallel=False,
        build_flags=(("gemm_plugin", "auto"),),
        vision_type="mllama",
        quantizations=("FP8", "INT8WeightOnly", "INT4WeightOnly"),
    ),
    checkpoint=NO_DECODER,
    layout=TILES,
    prompt=PromptStyle(
        IMAGES + "<|image|>{% endfor %}" + TEXT + "{% endfor %}",
        "<|image|>",
        chat=PLAIN_CHAT.replace("MARK", "<|image|>"),
    ),
    default_input_tokens=1536,  # upstream's documented engine: sequences of 2048
    default_output_tokens=512,
    template_tokens=1,  # the text must hold the image tag itself
    pytorch=PyTorchServing(images=False),
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
