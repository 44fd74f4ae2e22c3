"""VILA 1.5: SigLIP patches, 2 x 2 of them a feature, rounded up (#commands, #features)."""

from dataclasses import replace

from mm_api.checkpoint.text import text_facts
from mm_api.checkpoint.values import Dimensions, JsonObject, Sizes, invalid, section
from mm_api.checkpoint.vision import SIGLIP, encoder_parameters, tower_facts
from mm_api.documents.model_facts import TextFacts, VisionFacts
from mm_api.families.checkpoint_files import CheckpointFiles, Decoder, Tokenizer
from mm_api.families.family import LLAMA_ENGINES, Family
from mm_api.families.image_layouts.layout import SQUARE, patches
from mm_api.families.prompt import IMAGES, TEXT, PromptStyle


def is_in_parts(config: JsonObject) -> bool:
    """Return whether the checkpoint is three, each in a folder: VILA 1.5, NVILA."""
    return "llm_cfg" in config and "vision_tower_cfg" in config


def features_per_image(vision: VisionFacts) -> int:
    """Return ceil(side / patch / 2)^2: 384 pixels in patches of 14 are 27 x 27, then 14 x 14."""
    return (-(-(vision.image_size // vision.patch_size) // 2)) ** 2


def vision_parameters(vision: VisionFacts, text: TextFacts) -> int:
    """Return the weights of SigLIP with its pooling head, and of the projector over 2 x 2 patches.

    VILA's weights lie in three folders without a common index, so they are counted.
    """
    width, inner = vision.hidden_size, vision.intermediate_size or 4 * vision.hidden_size
    perceptron = 2 * width * inner + inner + width
    attention = 4 * (width * width + width)
    tower = encoder_parameters(vision)
    positions = (vision.image_size // vision.patch_size) ** 2
    tower += (3 * vision.patch_size**2 + 1 + positions + 2) * width
    head = width + attention + 2 * width + perceptron
    wide, hidden = 4 * width, text.hidden_size
    projector = 2 * wide + wide * hidden + hidden + hidden * hidden + hidden
    return tower + head + projector


def read(config: JsonObject, _: JsonObject) -> Dimensions:
    """Return the parts of VILA 1.5: 2 x 2 patches become a feature; CheckpointError: others."""
    tower = section(config, "vision_tower_cfg") or {}
    projector = str((section(config, "mm_projector_cfg") or {}).get("mm_projector_type", ""))
    if config.get("s2"):
        raise invalid(
            "s2 is true: several scales of one square are planned by no backend here. Use a"
            " VILA1.5 without s2"
        )
    ratio = config.get("image_aspect_ratio")
    if ratio in {"dynamic", "dynamic_s2"} or config.get("dynamic_s2") or projector.endswith("_fix"):
        raise invalid(
            f"image_aspect_ratio is {ratio!r} and mm_projector_type {projector!r}, as in NVILA,"
            " which no backend here serves. Nearest: LLaVA-OneVision (family llava-onevision),"
            " whose images are tiled too"
        )
    if projector not in {"mlp_downsample", ""}:
        raise invalid(
            f"mm_projector_cfg.mm_projector_type is {projector!r}; expected 'mlp_downsample'"
            " (VILA1.5), whose features per image are known"
        )
    size = Sizes(tower, SIGLIP, "vision_tower_cfg")
    grid = size("image_size") // size("patch_size")
    vision = tower_facts(size, features_per_image=(-(-grid // 2)) ** 2, merge_size=2)
    return Dimensions(text_facts(section(config, "llm_cfg") or {}, where="llm_cfg"), vision)


WRAPPER = (
    "A chat between a curious user and an artificial intelligence assistant. "
    "The assistant gives helpful, detailed, and polite answers to the user's questions. USER: "
    + IMAGES
    + "<image>\n{% endfor %}"
    + TEXT
    + "{% endfor %} ASSISTANT:"
)
CHAT = (
    "A chat between a curious user and an artificial intelligence assistant. "
    "The assistant gives helpful, detailed, and polite answers to the user's questions."
    "{% for message in messages %}{% set role = message['role'] %}"
    "{% set after = loop.previtem is defined and loop.previtem['role'] == 'assistant' %}"
    "{{ '' if after else ' ' }}"
    "{{ 'USER: ' if role == 'user' else 'ASSISTANT: ' if role == 'assistant' else '' }}"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}<image>{{ '\\n' }}"
    "{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}"
    "{{ '</s>' if role == 'assistant' else '' }}"
    "{% endfor %} ASSISTANT:"
)
"""Vicuna's conversation, as VILA 1.5 was tuned with it."""


VILA = Family(
    name="vila",
    title="VILA 1.5",
    architectures=("LlavaLlamaModel", "LlavaLlamaForCausalLM"),
    model_type=None,  # llava_llama and more: its layout identifies it
    recognised=is_in_parts,
    read=read,
    dtypes=("float16", "bfloat16"),
    dtype_reason="upstream's engines are float16, whatever the checkpoint is stored in",
    trtllm=replace(
        LLAMA_ENGINES,
        vision_type="vila",
        vision_path_flags=("--vila_path", "VILA"),
        vision_packages=("s2wrapper",),  # requirements-vila.txt: VILA's own code imports it
        checkpoint_folder="checkpoint-vila",
        notes=(
            "the converter knows the checkpoint by its folder: its name must hold vila or VILA",
        ),
    ),
    # No `pytorch`: trtllm-serve gives upstream's class images as tensors, and its process_image
    # (tensorrt_llm/_torch/models/modeling_vila.py at 0185c281) resizes and pads PIL images alone.
    checkpoint=CheckpointFiles(
        decoder=Decoder.FOLDER,
        vision_parameters=vision_parameters,
        tokenizer=Tokenizer(
            advice="Save a fast tokenizer into llm/:"
            " AutoTokenizer.from_pretrained('llm').save_pretrained('llm')."
        ),
        in_parts=True,
    ),
    fused_passes=True,
    prompt=PromptStyle(WRAPPER, splits=True, chat=CHAT),
    layout=replace(SQUARE, features_per_image=features_per_image, positions_per_tile=patches),
    default_input_tokens=2048,
    default_output_tokens=512,
    template_tokens=64,  # the chat's first sentence, about 40 tokens, and its roles
    notes=(
        (
            "`<image>` must stand in the text once per image: missing ones give a wrong answer, no "
            "error"
        ),
    ),
)
