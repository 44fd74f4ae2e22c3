"""Checkpoints of classes that have no record: small, random, each with its own processor."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from support.families import (
    document_classes,
    patch_classes,
    tile_classes,
    timm_classes,
    torchvision_classes,
)
from support.families.checkpoints import HIDDEN, PATCH, SHARED, SIDE, TEXT, save
from support.families.words import SIZE, id_of, tokenizer

TOWER = SHARED | {"image_size": SIDE, "patch_size": PATCH}
SQUARE = {"height": SIDE, "width": SIDE}
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ message['role'] }} : "
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endfor %} assistant :"
)


def _words(tokens: Sequence[str], **named: Any) -> Any:
    found = tokenizer(tokens)
    for name, value in named.items():
        setattr(found, name, value)
    return found


def paligemma(folder: Path) -> None:
    """PaliGemma: no chat template; all of the prompt sees all of it."""
    import torch  # noqa: PLC0415 (seconds)
    import transformers as t  # noqa: PLC0415 (seconds)

    tokens = ("<image>",)
    config = t.PaliGemmaConfig(
        vision_config=TOWER
        | {"model_type": "siglip_vision_model", "projection_dim": HIDDEN, "vision_use_head": False},
        text_config=TEXT | {"model_type": "gemma", "head_dim": 16},
        image_token_index=id_of("<image>", tokens),
        projection_dim=HIDDEN,
        tie_word_embeddings=False,
    )
    model = t.PaliGemmaForConditionalGeneration(config)
    save(model, folder)
    # Features are divided by the root of the width, embeddings are multiplied: images would not
    # matter.
    with torch.no_grad():
        model.model.multi_modal_projector.linear.weight.mul_(40)
        model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight))
    model.save_pretrained(folder)
    images = t.SiglipImageProcessorPil(size=SQUARE)
    images.image_seq_length = (SIDE // PATCH) ** 2
    t.PaliGemmaProcessor(images, _words(tokens)).save_pretrained(folder)
    # It adds 1,152 tokens, for which a small model has no rows, and does so again when it is read.
    _words(tokens).save_pretrained(folder)


def aya_vision(folder: Path) -> None:
    """Aya Vision: tiles, each between tokens; layers with windows."""
    import transformers as t  # noqa: PLC0415 (seconds)

    tokens = (
        *("<image>", "<|START_OF_IMG|>", "<|END_OF_IMG|>", "<|IMG_PATCH|>", "<|IMG_LINE_BREAK|>"),
        *("TILE", "TILE_GLOBAL"),
    )
    config = t.AyaVisionConfig(
        vision_config=TOWER | {"model_type": "siglip_vision_model", "vision_use_head": False},
        text_config=TEXT | {"model_type": "cohere2", "sliding_window": 64},
        image_token_index=id_of("<|IMG_PATCH|>", tokens),
        downsample_factor=2,
    )
    save(t.AyaVisionForConditionalGeneration(config), folder)
    images = t.GotOcr2ImageProcessorPil(
        size=SQUARE, crop_to_patches=True, min_patches=1, max_patches=4
    )
    t.AyaVisionProcessor(
        images,
        _words(tokens),
        patch_size=PATCH,
        img_size=SIDE,
        downsample_factor=2,
        chat_template=TEMPLATE,
    ).save_pretrained(folder)


def idefics2(folder: Path) -> None:
    """Idefics2: a perceiver between tower and language model; images keep their shape."""
    import transformers as t  # noqa: PLC0415 (seconds)

    tokens = ("<fake_token_around_image>", "<image>", "<end_of_utterance>")
    config = t.Idefics2Config(
        vision_config=dict(TOWER),
        text_config=TEXT | {"model_type": "mistral", "head_dim": 16, "sliding_window": None},
        perceiver_config={
            "resampler_n_latents": 4,
            "resampler_depth": 1,
            "resampler_n_heads": 2,
            "num_key_value_heads": 1,
            "resampler_head_dim": 16,
            "hidden_size": HIDDEN,
        },
        image_token_id=id_of("<image>", tokens),
    )
    save(t.Idefics2ForConditionalGeneration(config), folder)
    images = t.Idefics2ImageProcessorPil(
        size={"shortest_edge": PATCH, "longest_edge": SIDE}, do_image_splitting=False
    )
    t.Idefics2Processor(
        images, _words(tokens), image_seq_len=4, chat_template=TEMPLATE
    ).save_pretrained(folder)


def vipllava(folder: Path) -> None:
    """VipLlava: features of several layers of CLIP together."""
    import transformers as t  # noqa: PLC0415 (seconds)

    tokens = ("<image>",)
    config = t.VipLlavaConfig(
        vision_config=TOWER | {"model_type": "clip_vision_model"},
        text_config=TEXT | {"model_type": "llama"},
        image_token_index=id_of("<image>", tokens),
        vision_feature_layers=[-2, -1],
    )
    save(t.VipLlavaForConditionalGeneration(config), folder)
    images = t.CLIPImageProcessorPil(size={"shortest_edge": SIDE}, crop_size=SQUARE)
    t.LlavaProcessor(
        images,
        _words(tokens),
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=TEMPLATE,
    ).save_pretrained(folder)


def ovis2(folder: Path) -> None:
    """Ovis2: features are mixed from a table of visual words; grids of tiles between tokens."""
    import transformers as t  # noqa: PLC0415 (seconds)

    marks = ("<IMG_START>", "<IMG_GRID>", "<IMG_COL>", "<IMG_ROW>", "<IMG_END>")
    tokens = ("<image>", "<IMG_ATOM>", *marks)
    config = t.Ovis2Config(
        vision_config=TOWER | {"hidden_stride": 1, "vocab_size": 40},
        text_config=TEXT | {"model_type": "qwen2"},
        image_token_id=id_of("<IMG_ATOM>", tokens),
        visual_indicator_token_ids=[id_of(one, tokens) for one in marks],
        vocab_size=SIZE,
        hidden_size=HIDDEN,
    )
    save(t.Ovis2ForConditionalGeneration(config), folder)
    images = t.Ovis2ImageProcessorPil(
        size=SQUARE, crop_to_patches=True, max_patches=4, min_patches=1
    )
    named = _words(tokens, image_token="<image>", image_token_id=id_of("<image>", tokens))
    t.Ovis2Processor(
        images, named, image_seq_length=(SIDE // PATCH) ** 2, chat_template=TEMPLATE
    ).save_pretrained(folder)


WRITERS: dict[str, Callable[[Path], None]] = {
    **{one.__name__: one for one in (paligemma, aya_vision, idefics2, vipllava, ovis2)},
    **torchvision_classes.WRITERS,
    **patch_classes.WRITERS,
    **tile_classes.WRITERS,
    **timm_classes.WRITERS,
    **document_classes.WRITERS,
}
"""model_type -> what writes a checkpoint of it."""


def write(kind: str, folder: Path) -> Path:
    import torch  # noqa: PLC0415 (seconds)

    torch.manual_seed(11)
    folder.mkdir(parents=True, exist_ok=True)
    WRITERS[kind](folder)
    return folder
