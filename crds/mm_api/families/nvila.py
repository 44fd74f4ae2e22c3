"""NVILA: SigLIP's tiles of an image, and Qwen2, in folders of their own (#features).

TensorRT-LLM's class, VilaModel (tensorrt_llm/_torch/models/modeling_vila.py at 0185c281), reads
`llm/`, `vision_tower/` and `mm_projector/`; its tiles are those of modeling_multimodal_utils.py.
The table of docs/source/models/supported-models.md names Efficient-Large-Model/NVILA-8B since 1.0.
transformers has no class of it, and upstream has no vision builder of it.
"""

import json
from dataclasses import replace

from mm_api.checkpoint.dimensions import Dimensions
from mm_api.checkpoint.text import text_facts
from mm_api.checkpoint.values import JsonObject, Sizes, invalid, section
from mm_api.checkpoint.vision import SIGLIP, encoder_parameters, tower_facts
from mm_api.documents.model_facts import TextFacts, VisionFacts
from mm_api.families.backend_parts import ON_SERVERS, PyTorchServing, TensorRTLLM
from mm_api.families.checkpoint_files import CheckpointFiles, Decoder, Tokenizer
from mm_api.families.family import Family
from mm_api.families.image_layouts.ended import ENDED, features_of_square
from mm_api.families.prompt import IMAGES, TEXT, PromptStyle
from mm_api.families.text_block import QWEN2
from mm_api.families.vila import TILING, is_in_parts, tiles_images

PROJECTORS = {"mlp_downsample": 2, "mlp_downsample_2x2_fix": 2, "mlp_downsample_3x3_fix": 3}
"""Patches a side that become one feature: DownSampleBlock and the like of modeling_vila.py."""

IMAGE_ENCODER = {"_target_": "llava.model.encoders.BasicImageEncoder"}
"""As in LlavaConfig, for checkpoints that leave it out: a newline ends what a tile becomes."""

LEAST_TILES, MOST_TILES = 1, 12
"""min_tiles and max_tiles of VilaConfig, for checkpoints that leave them out."""

TEXTS = ("qwen2",)
"""Language models whose blocks are planned."""

CONVERSATIONS = ("vila1.5-3b", "vila1.5-8b", "vila1.5-13b", "vila1.5-40b", "llama-3", "llama3")
"""CONVERSATION_MODE_MAPPING of modeling_vila.py: a path with one of them has that conversation,
whatever the checkpoint is; every other one has the tokenizer's own template."""

NEAREST = "LLaVA-OneVision (family llava-onevision), whose images are tiled too"


def vision_parameters(vision: VisionFacts, text: TextFacts) -> int:
    """Return the weights of SigLIP without its pooling head, and of the projector.

    They lie in folders without a common index, so they are counted.
    """
    width, tower = vision.hidden_size, encoder_parameters(vision)
    positions = (vision.image_size // vision.patch_size) ** 2
    tower += (3 * vision.patch_size**2 + 1 + positions + 2) * width
    seen, hidden = width * len(vision.scales or (1,)), text.hidden_size
    merged = vision.merge_size or 2
    wide = seen * merged**2
    last = hidden * hidden + hidden
    if merged == 2:  # noqa: PLR2004 (2 x 2 patches)
        return tower + 2 * wide + wide * hidden + hidden + last
    between = seen * merged
    projector = 2 * wide + wide * between + between + 2 * between
    return tower + projector + between * hidden + hidden + last


def read(config: JsonObject, processor: JsonObject) -> Dimensions:
    """Return the parts of an NVILA checkpoint.

    Raises:
        CheckpointError: TensorRT-LLM's class does not read it: it is of another class, its parts
            lie elsewhere, or its tiles or features are made in a way that is not planned.
    """
    _check_class(config)
    ratio = config.get("image_aspect_ratio")
    if ratio not in TILING:
        raise invalid(
            f"image_aspect_ratio is {ratio!r}; expected dynamic or dynamic_s2: trtllm-serve gives"
            " its class images as tensors, which it does not resize or pad"
            f" (process_image of modeling_vila.py). Use {NEAREST}"
        )
    if config.get("s2") or bool(config.get("dynamic_s2")) != (ratio == TILING[1]):
        raise invalid(
            f"image_aspect_ratio is {ratio!r}, s2 {config.get('s2')!r} and dynamic_s2"
            f" {config.get('dynamic_s2')!r}, which contradict each other: its tower would read"
            " other tiles than the images are cut into"
        )
    _check_encoder(config)
    text = section(config, "llm_cfg") or {}
    kind = text.get("model_type")
    if kind not in TEXTS:
        raise invalid(
            f"llm_cfg.model_type is {kind!r}; expected {' or '.join(TEXTS)}, whose blocks are"
            " planned. Use an NVILA of Efficient-Large-Model"
        )
    if text.get("use_sliding_window"):
        raise invalid("llm_cfg.use_sliding_window is true; expected false")
    tied = bool(text.get("tie_word_embeddings", False))
    facts = text_facts(text, where="llm_cfg", tied_embeddings=tied)
    return Dimensions(facts, _vision(config, processor))


def _vision(config: JsonObject, processor: JsonObject) -> VisionFacts:
    tower = section(config, "vision_tower_cfg") or {}
    names = tower.get("architectures")
    if not isinstance(names, list) or names[:1] != ["SiglipVisionModel"]:
        raise invalid(
            f"vision_tower_cfg.architectures is {names!r}; expected SiglipVisionModel, whose"
            " features are planned"
        )
    if (selected := config.get("mm_vision_select_feature", "patch")) != "cls_patch":
        raise invalid(
            f"mm_vision_select_feature is {selected!r}; expected 'cls_patch': SigLIP has no class"
            " token that could be left out"
        )
    projector = (section(config, "mm_projector_cfg") or {}).get("mm_projector_type")
    if projector not in PROJECTORS:
        raise invalid(
            f"mm_projector_cfg.mm_projector_type is {projector!r}; expected one of"
            f" {', '.join(PROJECTORS)}, whose features are planned"
        )
    size = Sizes(tower, SIGLIP, "vision_tower_cfg")
    side, merged = size("image_size"), PROJECTORS[projector]
    cut = Sizes(section(processor, "size") or {}, {}, "vision_tower/preprocessor_config.json size")
    scales = _scales(config, side) if config.get("dynamic_s2") else None
    if scales is None and (cut("height", side), cut("width", side)) != (side, side):
        raise invalid(
            "vision_tower/preprocessor_config.json cuts tiles of another size than"
            f" vision_tower_cfg.image_size, {side}, which the tower has positions for"
        )
    tiles = Sizes(config, {})
    least, most = tiles("min_tiles", LEAST_TILES), tiles("max_tiles", MOST_TILES)
    if scales:
        least = (scales[-1] // scales[0]) ** 2
    if least > most:
        raise invalid(f"max_tiles is {most}; expected {least} or more, the tiles at the least")
    return tower_facts(
        size,
        features_per_image=features_of_square(side, size("patch_size"), merged),  # of one tile
        feature_layer=_layer(config, size("num_hidden_layers")),
        merge_size=merged,
        min_tiles=least,
        max_tiles=most + (scales is None and most > 1),
        scales=scales,
    )


def _layer(config: JsonObject, layers: int) -> int:
    found: object = config.get("mm_vision_select_layer", -2)
    if isinstance(found, bool) or not isinstance(found, int) or not -layers - 1 <= found <= layers:
        raise invalid(
            f"mm_vision_select_layer is {found!r}; expected an integer from {-layers - 1} to"
            f" {layers}, a state of the tower"
        )
    return found


def _check_encoder(config: JsonObject) -> None:
    """Refuse images that become tokens in another way."""
    if config.get("ps3"):
        raise invalid("ps3 is true; expected false: its tower looks at parts of an image again")
    stated = config.get("image_encoder")
    try:
        encoder = json.loads(stated) if isinstance(stated, str) else stated
    except ValueError:
        encoder = stated
    if encoder is not None and encoder != IMAGE_ENCODER:
        raise invalid(
            f"image_encoder is {stated!r}; expected {IMAGE_ENCODER}, which ends a tile with a"
            " newline"
        )
    if (template := config.get("chat_template")) not in {None, "qwen2"}:
        raise invalid(
            f"chat_template is {template!r}; expected null or 'qwen2': others are files of VILA's"
            " own code, which a checkpoint does not hold"
        )


def _scales(config: JsonObject, side: int) -> list[int]:
    """Return the scales of dynamic_s2."""
    stated = config.get("s2_scales")
    try:
        parts = stated.split(",") if isinstance(stated, str) else stated
        scales = [int(one) for one in parts]  # type: ignore[union-attr]
    except (TypeError, ValueError):
        scales = []
    multiples = all(one > 0 and one % side == 0 for one in scales)
    least = 2
    if len(scales) < least or not multiples or scales[0] != side or scales != sorted(set(scales)):
        raise invalid(
            f"s2_scales is {stated!r}; expected two or more that rise, multiples of the tower's"
            f" {side} pixels, which is the first"
        )
    kept = config.get("s2_resize_output_to_scale_idx", 0)
    if kept not in {-1, len(scales) - 1}:
        raise invalid(
            f"s2_resize_output_to_scale_idx is {kept!r}; expected -1, as in NVILA-8B: features of"
            " other scales are not planned"
        )
    return scales


def _check_class(config: JsonObject) -> None:
    """Refuse what TensorRT-LLM's class does not find."""
    kind, names = config.get("model_type"), config.get("architectures")
    if kind != "llava_llama" or not isinstance(names, list) or names[:1] != ["LlavaLlamaModel"]:
        raise invalid(
            f"config.json says model_type {kind!r} and architectures {names!r}; expected"
            " llava_llama and LlavaLlamaModel, the only ones that TensorRT-LLM has a class for"
        )
    for key, folder in (
        ("llm_cfg", "llm"),
        ("vision_tower_cfg", "vision_tower"),
        ("mm_projector_cfg", "mm_projector"),
    ):
        name = (section(config, key) or {}).get("_name_or_path")
        if not isinstance(name, str) or name.strip("/").rpartition("/")[2] != folder:
            raise invalid(
                f"{key}._name_or_path is {name!r}; expected a path that ends in {folder!r}:"
                " TensorRT-LLM's class finds that folder of the checkpoint by it"
            )
    if not config.get("resume_path"):
        raise invalid(
            "resume_path is missing or empty; expected any path, as training writes it: without it"
            " TensorRT-LLM's class does not load mm_projector/"
        )
    if (dtype := config.get("model_dtype")) not in {"torch.float16", "torch.bfloat16"}:
        raise invalid(
            f"model_dtype is {dtype!r}; expected 'torch.float16' or 'torch.bfloat16', which"
            " TensorRT-LLM's class reads"
        )


ANSWER = "{% endfor %}<|im_end|>\n<|im_start|>assistant{{ '\n' }}"
"""jinja drops a line break at the end of a template that is not written by an expression."""

WRAPPER = "<|im_start|>user\n" + IMAGES + "<image>\n{% endfor %}" + TEXT + ANSWER
"""As trtllm-serve puts images before a text, each in a line."""


NVILA = Family(
    name="nvila",
    title="NVILA",
    architectures=("LlavaLlamaModel",),
    model_type=None,  # llava_llama, as VILA's: the layout and the tiles identify it
    recognised=lambda config: is_in_parts(config) and tiles_images(config),
    read=read,
    text=replace(QWEN2, adapters=False),
    layout=ENDED,
    checkpoint=CheckpointFiles(
        decoder=Decoder.FOLDER,
        vision_parameters=vision_parameters,
        tokenizer=Tokenizer(
            advice="Save a fast tokenizer into llm/, not beside it:"
            " AutoTokenizer.from_pretrained('llm').save_pretrained('llm')."
        ),
        in_parts=True,
    ),
    unserved=ON_SERVERS,
    prompt=PromptStyle(WRAPPER, video="<vila/video>", splits=True, opening="<|im_start|>"),
    template_tokens=48,
    trtllm=TensorRTLLM(
        pipeline_parallel=False,
        most_images=lambda vision: None if vision.scales else 1,
        max_images_reason="TensorRT-LLM's class divides the tiles of a request evenly among its"
        " images (_postprocess of modeling_vila.py), so that tiles of one would be taken for"
        " another's",
    ),
    pytorch=PyTorchServing(
        images=True,
        joins_messages=True,
        folder_words=CONVERSATIONS,
    ),
    notes=(
        "at several scales (dynamic_s2, NVILA-8B) the tiles of the last one are joined again",
        "tower and projector run in trtllm-serve's process, in float16, by one request",
        "a request is one message: trtllm-serve would join several without a mark",
        "videos are not served",
    ),
)
