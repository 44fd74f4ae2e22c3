"""LLaVA-NeXT (1.6): CLIP's base view and the unpadded tiles of the best grid (#features).

Upstream's example (examples/models/core/llava_next) builds engines that only its own script runs:
Triton's preprocessing model refuses a vision engine of `llava_next`.
"""

from dataclasses import replace

from mm_api.checkpoint.text import decoder_of
from mm_api.checkpoint.values import Dimensions, JsonObject, invalid
from mm_api.checkpoint.vision import grids_of, most_tiles
from mm_api.families import llava
from mm_api.families.family import NO_ENGINES, Family, PyTorchServing
from mm_api.families.image_layouts.views import VIEWS
from mm_api.families.prompt import IMAGES, TEXT, PromptStyle

TEXTS = ("llama", "mistral")
"""Language models whose blocks are LLaMA's: those of Vicuna, Mistral, Hermes-Yi and Llama 3."""

MISTRALS_WINDOW = 4096
"""As in MistralConfig, where a configuration leaves it out."""

PINPOINTS = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]
"""LlavaNextConfig's own."""


def check_window(text: JsonObject) -> None:
    """Refuse (CheckpointError) a language model that does not attend to all of an image."""
    default = MISTRALS_WINDOW if text["model_type"] == "mistral" else None
    window = text.get("sliding_window", default)
    if window is not None:
        raise invalid(
            f"text_config.sliding_window is {window!r}; expected null: the answer must attend to"
            " all of an image and its question"
        )


def read(config: JsonObject, processor: JsonObject) -> Dimensions:
    """Return the parts of a LLaVA-NeXT checkpoint, of tiled images; CheckpointError: others."""
    known = (
        f"{' or '.join(TEXTS)}, whose blocks are planned and converted. Use"
        " llava-v1.6-mistral-7b-hf or -vicuna-7b-hf."
    )
    check_window(decoder_of(config, TEXTS, known))
    found = llava.read(config, processor)
    assert found.vision is not None  # noqa: S101 (llava.read has made it)
    if found.vision.feature_select == "full":
        raise invalid(
            "vision_feature_select_strategy is 'full'; expected 'default': a class token has no"
            " place in a grid of tiles"
        )
    grids = grids_of(
        config.get("image_grid_pinpoints") or processor.get("image_grid_pinpoints") or PINPOINTS
    )
    vision = found.vision.model_copy(
        update={"grid_pinpoints": grids, "max_tiles": most_tiles(grids, found.vision.image_size)}
    )
    return replace(found, vision=vision)


WRAPPER = "[INST] " + IMAGES + "<image>\n{% endfor %}" + TEXT + "{% endfor %} [/INST]"
"""Mistral's, as upstream's script writes it; other language models bring a template."""


LLAVA_NEXT = Family(
    name="llava-next",
    title="LLaVA-NeXT",
    architectures=("LlavaNextForConditionalGeneration",),
    model_type="llava_next",
    read=read,
    dtypes=("float16", "bfloat16"),
    dtype_reason="upstream's engines are float16",
    trtllm=replace(
        NO_ENGINES,  # Triton's preprocessing model refuses them
        max_images=1,
        max_images_reason="upstream's script takes one image a request",
    ),
    layout=VIEWS,
    fused_passes=True,
    prompt=PromptStyle(WRAPPER),
    default_input_tokens=4096,  # upstream's documented engine: input 4096, sequence 5120
    pytorch=PyTorchServing(images=True),
    notes=("the smallest grid has two tiles: even 336 x 336 pixels are 1,176 features",),
)
