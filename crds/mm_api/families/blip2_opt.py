"""BLIP-2 with OPT: the Q-Former's query tokens are the features (#commands, #features)."""

from dataclasses import replace

from mm_api.checkpoint.text import text_facts
from mm_api.checkpoint.values import Dimensions, JsonObject, Sizes, section
from mm_api.checkpoint.vision import image_token, tower_facts, tower_sizes
from mm_api.documents.model_facts import VisionFacts
from mm_api.families.checkpoint_files import CheckpointFiles, Decoder
from mm_api.families.family import GEMM, Family, TensorRTLLM
from mm_api.families.image_layouts.layout import SQUARE
from mm_api.families.prompt import IMAGES, PLAIN_CHAT, TEXT, PromptStyle
from mm_api.families.text_block import LLAMA


def features_per_image(vision: VisionFacts) -> int:
    return vision.query_tokens or vision.features_per_image


TOWER = tower_sizes(1408, 6144, 39, 16, 224, 14)
"""Blip2VisionConfig: published checkpoints leave all of it out."""


def read(config: JsonObject, _: JsonObject) -> Dimensions:
    """Return the parts of a BLIP-2 checkpoint with OPT."""
    text = dict(section(config, "text_config") or {})
    text.setdefault("model_type", "opt")
    size = Sizes(section(config, "vision_config") or {}, TOWER, "vision_config")
    queries = Sizes(config, {"num_query_tokens": 32})("num_query_tokens")
    return Dimensions(
        text_facts(text, tied_embeddings=True),
        tower_facts(size, features_per_image=queries, query_tokens=queries),
        image_token_id=image_token(config),
    )


def reads_opt(config: JsonObject) -> bool:
    """Return whether the language model is OPT, as where a BLIP-2 checkpoint does not say it."""
    text = config.get("text_config")
    return not isinstance(text, dict) or text.get("model_type", "opt") == "opt"


BLIP2_OPT = Family(
    name="blip2-opt",
    title="BLIP-2 OPT",
    architectures=("Blip2ForConditionalGeneration",),
    model_type="blip-2",
    recognised=reads_opt,
    read=read,
    dtypes=("float16", "bfloat16", "float32"),
    dtype_reason="the checkpoint is stored as float32; upstream's engines are float16",
    text=replace(
        LLAMA,
        gated=False,
        qkv_bias=True,
        dense_bias=True,
        mlp_bias=True,
        norm_vectors=2,
        position_offset=2,
        adapters=False,
    ),
    trtllm=TensorRTLLM(
        converter="opt",
        pipeline_parallel=False,
        convert_flags=("--model_type", "blip2"),
        build_flags=GEMM,
        vision_type="blip2",
        built_vision_type="blip2-opt",
        quantizations=("INT8WeightOnly", "INT4WeightOnly"),
    ),
    checkpoint=CheckpointFiles(decoder=Decoder.NESTED_MODEL),
    # Its features come first, without a word of the model's in front of them.
    prompt=PromptStyle(
        IMAGES + "<image>{% endfor %}" + TEXT + "{% endfor %}",
        splits=True,
        chat=PLAIN_CHAT.replace("MARK", "<image>"),
    ),
    layout=replace(SQUARE, features_per_image=features_per_image),
    default_input_tokens=924,  # upstream's documented engine: input 924, sequence 1024
    default_output_tokens=100,
    template_tokens=1,  # no wrapper, the start token only
    notes=("with no text in front of it upstream loses a leading `<image>`",),
)
