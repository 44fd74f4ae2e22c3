"""Gemma 3: SigLIP's squares pooled to 256 features; layers with windows. Servers encode them.

TensorRT-LLM's PyTorch backend serves it since 1.0 (docs/source/reference/support-matrix.md); there
is no vision builder of it.
"""

from dataclasses import replace
from math import isqrt

from mm_api.checkpoint.text import decoder_of, text_facts
from mm_api.checkpoint.values import Dimensions, JsonObject, Sizes, invalid, section
from mm_api.checkpoint.vision import image_token, tower_facts, tower_sizes
from mm_api.families.family import Family, PyTorchServing
from mm_api.families.image_layouts.layout import SQUARE, patches
from mm_api.families.prompt import IMAGES, TEXT, PromptStyle
from mm_api.families.text_block import LLAMA

TOWER = tower_sizes(768, 3072, 12, 12, 224, 16)
"""Defaults of SiglipVisionConfig."""

TOKENS = 256
"""mm_tokens_per_image of Gemma3Config."""

WINDOW = 4096
"""sliding_window of Gemma3TextConfig."""


def read(config: JsonObject, processor: JsonObject) -> Dimensions:
    """Return the parts of a Gemma 3 checkpoint with a tower; CheckpointError: another one's."""
    text = decoder_of(config, ("gemma3_text",))
    for key in ("final_logit_softcapping", "attn_logit_softcapping", "use_bidirectional_attention"):
        if text.get(key):
            raise invalid(f"text_config.{key} is {text[key]!r}; expected none, as in Gemma 3")
    if processor.get("do_pan_and_scan"):
        raise invalid(
            "preprocessor_config.json do_pan_and_scan is true: crops beside an image are not"
            " served; expected false, as in the published checkpoints"
        )
    size = Sizes(section(config, "vision_config") or {}, TOWER, "vision_config")
    tokens = Sizes(config, {})("mm_tokens_per_image", TOKENS)
    patches, side = size("image_size") // size("patch_size"), isqrt(tokens)
    if side**2 != tokens or patches % side:
        raise invalid(
            f"mm_tokens_per_image is {tokens}; expected the square of a number that divides the"
            f" {patches} patches along a side of an image"
        )
    vision = tower_facts(size, features_per_image=tokens, merge_size=patches // side)
    tied = bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", True)))
    layers = text.get("layer_types")
    windowed = "sliding_attention" in layers if isinstance(layers, list) else True
    window = Sizes(text, {}, "text_config")("sliding_window", WINDOW) if windowed else None
    facts = text_facts(text, tied_embeddings=tied, sliding_window=window)
    return Dimensions(facts, vision, image_token_id=image_token(config))


WRAPPER = (
    "<start_of_turn>user\n"
    + IMAGES
    + "<start_of_image>{% endfor %}"
    + TEXT
    + "{% endfor %}<end_of_turn>\n<start_of_turn>model\n"
)


GEMMA3 = Family(
    name="gemma3",
    title="Gemma 3",
    architectures=("Gemma3ForConditionalGeneration",),
    model_type="gemma3",
    read=read,
    dtypes=("bfloat16",),
    dtype_reason="activations overflow float16",
    text=replace(LLAMA, norms=4, head_norms=True, adapters=False),
    prompt=PromptStyle(
        WRAPPER,
        "<start_of_image>",
        framed="\n\n<start_of_image><image_soft_token><end_of_image>\n\n",
        opening="<start_of_turn>",
    ),
    layout=replace(SQUARE, encoder="", positions_per_tile=patches),
    on_reference=False,
    template_tokens=24,
    # TestGemma3_27BInstruct of tests/integration/defs/accuracy: "Gemma3 VLM needs FlashInfer
    # attention backend for custom mask support", without chunked prefill and reuse of blocks.
    pytorch=PyTorchServing(
        images=True,
        options={"attn_backend": "FLASHINFER", "enable_chunked_prefill": False},
    ),
    notes=(
        "keys and values of all layers are planned for entire sequences, those with a window too",
        "pan and scan (crops beside an image) is off; a checkpoint that turns it on is refused",
    ),
)
