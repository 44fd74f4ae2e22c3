"""Checkpoints of classes that have no record: small, random, each with its own processor."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from support.families import patch_classes, tile_classes, torchvision_classes
from support.families.checkpoints import HEADS, HIDDEN, PATCH, SIDE, TEXT, save, t
from support.families.patch_classes import PADS, qwen_processor
from support.families.torchvision_classes import BLOCKS, SQUARE, TOWER, template
from support.families.words import SIZE, id_of, tokenizer

TEMPLATE = template("<image>")


def _words(tokens: Sequence[str], **named: Any) -> Any:
    found = tokenizer(tokens)
    for name, value in named.items():
        setattr(found, name, value)
    return found


def paligemma(folder: Path) -> None:
    """PaliGemma: no chat template; all of the prompt sees all of it."""
    import torch  # noqa: PLC0415 (seconds)

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


def qianfan_ocr(folder: Path) -> None:
    """Qianfan-OCR: InternVL's tower, its patches merged, in front of Qwen3."""
    tokens = ("<image>", "<img>", "</img>", "<IMG_CONTEXT>")
    config = t.QianfanOCRConfig(
        vision_config=TOWER | {"image_size": [SIDE] * 2, "patch_size": [PATCH] * 2},
        text_config=TEXT | {"model_type": "qwen3", "head_dim": 16},
        image_token_id=id_of("<IMG_CONTEXT>", tokens),
        image_seq_length=1,
    )
    save(t.QianfanOCRForConditionalGeneration(config), folder)
    named = {
        "start_image_token": "<img>",
        "end_image_token": "</img>",
        "context_image_token": "<IMG_CONTEXT>",
    }
    t.QianfanOCRProcessor(
        t.GotOcr2ImageProcessor(size=SQUARE, crop_to_patches=True, max_patches=4),
        tokenizer(tokens, named=named),
        image_seq_length=1,
        chat_template=TEMPLATE,
    ).save_pretrained(folder)


def granite4_vision(folder: Path) -> None:
    """Granite 4 Vision: queries read inner layers of the tower, for layers of the decoder."""
    tokens = ("<image>",)
    side, patch = 32, 8
    pinpoints = [[side, 2 * side], [2 * side, side], [2 * side, 2 * side]]
    config = t.Granite4VisionConfig(
        vision_config=TOWER
        | {
            "hidden_size": 64,  # queries have a head for each 64
            "model_type": "siglip_vision_model",
            "vision_use_head": False,
            "image_size": side,
            "patch_size": patch,
        },
        text_config=TEXT | {"model_type": "granite4_vision_text"},
        qformer_config={
            "model_type": "blip_2_qformer",
            "hidden_size": 64,
            "encoder_hidden_size": 64,
            "num_attention_heads": 1,
            "intermediate_size": 64,
            "cross_attention_frequency": 1,
        },
        image_token_index=id_of("<image>", tokens),
        image_grid_pinpoints=pinpoints,
        downsample_rate="2/4",
        deepstack_layer_map=[[-1, 0]],
        spatial_target_layers=[1],
        use_spatial_sampling=True,
        vision_feature_select_strategy="full",
    )
    save(t.Granite4VisionForConditionalGeneration(config), folder)
    t.Granite4VisionProcessor(
        t.LlavaNextImageProcessor(
            size={"height": side, "width": side},
            crop_size={"height": side, "width": side},
            image_grid_pinpoints=pinpoints,
        ),
        tokenizer(tokens),
        patch_size=patch,
        vision_feature_select_strategy="full",
        downsample_rate="2/4",
        chat_template=TEMPLATE,
    ).save_pretrained(folder)


def hyperclovax_vision_v2(folder: Path) -> None:
    """HyperCLOVA X SEED 2: Qwen2.5-VL's tower in front of a decoder with multipliers."""
    config = t.HyperCLOVAXVisionV2Config(
        vision_config=BLOCKS
        | {"model_type": "qwen2_5_vl_vision", "window_size": 56, "fullatt_block_indexes": [1]},
        text_config=TEXT | {"head_dim": 16},
        **PADS,
    )
    save(t.HyperCLOVAXVisionV2ForConditionalGeneration(config), folder)
    qwen_processor(folder, "HyperCLOVAXVisionV2Processor")


def molmo2(folder: Path) -> None:
    """Molmo 2: overlapping crops, pooled; new words of the vocabulary have a table of their own."""
    tokens = (
        *("<|image|>", "<|video|>", "<im_patch>", "<im_col>", "<im_start>", "<low_res_im_start>"),
        *("<frame_start>", "<im_end>", "<frame_end>", "<im_low>"),
    )
    side = 4 * PATCH
    config = t.Molmo2Config(
        vision_config=TOWER
        | {
            "num_key_value_heads": HEADS,
            "head_dim": 16,
            "image_size": [side, side],
            "num_position_embeddings": 16,
        },
        adapter_config={
            "vision_feature_layer": [-1, -2],
            "hidden_size": HIDDEN,
            "num_attention_heads": HEADS,
            "num_key_value_heads": HEADS,
            "head_dim": 16,
            "intermediate_size": 64,
            "text_hidden_size": HIDDEN,
        },
        text_config=TEXT | {"head_dim": 16, "additional_vocab_size": 4},
        image_start_token_id=id_of("<im_start>", tokens),
        low_res_image_start_token_id=id_of("<low_res_im_start>", tokens),
        image_end_token_id=id_of("<im_end>", tokens),
        image_patch_id=id_of("<im_patch>", tokens),
        image_col_id=id_of("<im_col>", tokens),
        frame_start_token_id=id_of("<frame_start>", tokens),
        frame_end_token_id=id_of("<frame_end>", tokens),
    )
    save(t.Molmo2ForConditionalGeneration(config), folder)
    sizes = {"size": {"height": side, "width": side}, "patch_size": PATCH}
    t.Molmo2Processor(
        t.Molmo2ImageProcessor(max_crops=4, overlap_margins=[1, 1], **sizes),
        t.Molmo2VideoProcessor(**sizes),
        tokenizer(tokens),
        chat_template=template("<|image|>"),
    ).save_pretrained(folder)


def granite_docling(folder: Path) -> None:
    """Granite Docling: tiles behind marks of rows and columns; inner layers give features, too."""
    marks = (f"<row_{row}_col_{column}>" for row in (1, 2) for column in (1, 2, 3, 4))
    tokens = ("<image>", "<fake_token_around_image>", "<global-img>", *marks)
    side = 32
    config = t.GraniteDoclingConfig(
        vision_config=TOWER
        | {
            "image_size": side,
            "patch_size": 8,
            "out_hidden_size": HIDDEN,
            "scale_factor": 2,
            "deepstack_visual_indexes": [0, 0, 1],
            "use_fine_route": False,
        },
        text_config=TEXT
        | {
            "embedding_multiplier": 1.0,
            "logits_scaling": 1.0,
            "residual_multiplier": 1.0,
            "attention_multiplier": 0.25,
        },
        image_token_id=id_of("<image>", tokens),
    )
    save(t.GraniteDoclingForConditionalGeneration(config), folder)
    t.GraniteDoclingProcessor(
        t.GraniteDoclingImageProcessor(size={"height": side, "width": side}, max_patches=4),
        tokenizer(tokens),
        image_seq_len=4,
        chat_template=TEMPLATE,
    ).save_pretrained(folder)


WRITERS: dict[str, Callable[[Path], None]] = {
    **{one.__name__: one for one in (paligemma, aya_vision, idefics2, vipllava, ovis2)},
    **{one.__name__: one for one in (qianfan_ocr, granite4_vision, granite_docling)},
    **{one.__name__: one for one in (hyperclovax_vision_v2, molmo2)},
    **torchvision_classes.WRITERS,
    **patch_classes.WRITERS,
    **tile_classes.WRITERS,
}
"""model_type -> what writes a checkpoint of it."""


def write(kind: str, folder: Path) -> Path:
    import torch  # noqa: PLC0415 (seconds)

    torch.manual_seed(11)
    folder.mkdir(parents=True, exist_ok=True)
    WRITERS[kind](folder)
    return folder
