"""Checkpoints of classes whose images keep their shape, as `own_classes` writes them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.families.checkpoints import HIDDEN, PATCH, SIDE, TEXT, save, t
from support.families.torchvision_classes import (
    BLOCKS,
    EXPERTS,
    MERGED,
    PIXELS,
    ROTATED,
    TOWER,
    UNSIZED,
    template,
)
from support.families.words import END, id_of, tokenizer

GLM = (
    *("<|image|>", "<|video|>", "<|begin_of_image|>", "<|end_of_image|>"),
    *("<|begin_of_video|>", "<|end_of_video|>"),
)
GLM_IDS = {
    "image_token_id": id_of("<|image|>", GLM),
    "video_token_id": id_of("<|video|>", GLM),
    "image_start_token_id": id_of("<|begin_of_image|>", GLM),
    "image_end_token_id": id_of("<|end_of_image|>", GLM),
    "video_start_token_id": id_of("<|begin_of_video|>", GLM),
    "video_end_token_id": id_of("<|end_of_video|>", GLM),
}
GLM_TEMPLATE = template("<|begin_of_image|><|image|><|end_of_image|>")
QWEN = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
PADS = {
    "image_token_id": id_of("<|image_pad|>", QWEN),
    "video_token_id": id_of("<|video_pad|>", QWEN),
}
QWEN_IDS = PADS | {
    "vision_start_token_id": id_of("<|vision_start|>", QWEN),
    "vision_end_token_id": id_of("<|vision_end|>", QWEN),
}
QWEN_TEMPLATE = template("<|vision_start|><|image_pad|><|vision_end|>")
LINEAR = {
    "head_dim": 16,
    "layer_types": ["linear_attention", "full_attention"],
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "rope_parameters": ROTATED | {"mrope_interleaved": True, "partial_rotary_factor": 1.0},
}
"""Layers of a state, and those of attention."""


def _glm(
    folder: Path, kind: str, processor: str = "Glm4v", vision: str | None = None, **text: Any
) -> None:
    config = getattr(t, f"{kind}Config")(
        vision_config=BLOCKS
        | {"image_size": 2 * SIDE}
        | ({"model_type": vision} if vision else {}),
        text_config=TEXT | {"rope_parameters": ROTATED | {"partial_rotary_factor": 1.0}} | text,
        **GLM_IDS,
    )
    save(getattr(t, f"{kind}ForConditionalGeneration")(config), folder)
    getattr(t, f"{processor}Processor")(
        getattr(t, f"{processor}ImageProcessor")(size=PIXELS, **MERGED),
        tokenizer(GLM),
        getattr(t, f"{processor}VideoProcessor")(**MERGED),
        chat_template=GLM_TEMPLATE,
    ).save_pretrained(folder)


def glm4v(folder: Path) -> None:
    """GLM-4V: images keep their shape; rotations of part of each head."""
    _glm(folder, "Glm4v")


def glm46v(folder: Path) -> None:
    """GLM-4.6V: GLM-4V with another processor."""
    _glm(folder, "Glm46V", "Glm46V", "glm4v_vision", model_type="glm4v_text")


def glm4v_moe(folder: Path) -> None:
    experts = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    _glm(folder, "Glm4vMoe", **experts, first_k_dense_replace=1)


def qwen3_vl_moe(folder: Path) -> None:
    """Qwen3-VL with experts; inner layers of the tower give features, too."""
    config = t.Qwen3VLMoeConfig(
        vision_config=BLOCKS | {"num_position_embeddings": 25, "deepstack_visual_indexes": [0, 1]},
        text_config=TEXT
        | EXPERTS
        | {"head_dim": 16, "rope_parameters": ROTATED | {"mrope_interleaved": True}},
        **QWEN_IDS,
    )
    save(t.Qwen3VLMoeForConditionalGeneration(config), folder)
    qwen_processor(folder, "Qwen3VLProcessor", "Qwen3VLVideoProcessor")


def qwen3_5(folder: Path) -> None:
    """Qwen3.5: layers of a state, and those of attention."""
    config = t.Qwen3_5Config(
        vision_config=BLOCKS | {"num_position_embeddings": 25},
        text_config=TEXT | LINEAR,
        **QWEN_IDS,
    )
    save(t.Qwen3_5ForConditionalGeneration(config), folder)
    qwen_processor(folder, "Qwen3VLProcessor", "Qwen3VLVideoProcessor")


def qwen3_5_moe(folder: Path) -> None:
    config = t.Qwen3_5MoeConfig(
        vision_config=BLOCKS | {"num_position_embeddings": 25},
        text_config=TEXT | LINEAR | EXPERTS | {"shared_expert_intermediate_size": 32},
        **QWEN_IDS,
    )
    save(t.Qwen3_5MoeForConditionalGeneration(config), folder)
    qwen_processor(folder, "Qwen3VLProcessor", "Qwen3VLVideoProcessor")


def qwen_processor(folder: Path, kind: str, videos: str = "Qwen2VLVideoProcessor") -> None:
    getattr(t, kind)(
        t.Qwen2VLImageProcessor(size=PIXELS, **MERGED),
        tokenizer(QWEN),
        getattr(t, videos)(**MERGED),
        chat_template=QWEN_TEMPLATE,
    ).save_pretrained(folder)


def exaone4_5(folder: Path) -> None:
    """EXAONE 4.5: layers with windows behind a tower with windows."""
    config = t.Exaone4_5_Config(
        vision_config=BLOCKS
        | {"num_key_value_heads": 1, "window_size": 56, "fullatt_block_indexes": [1]},
        text_config=TEXT
        | {
            "model_type": "exaone4",
            "sliding_window": 64,
            "layer_types": ["sliding_attention", "full_attention"],
        },
        **PADS,
    )
    save(t.Exaone4_5_ForConditionalGeneration(config), folder)
    qwen_processor(folder, "Exaone4_5_Processor")


def video_llama_3(folder: Path) -> None:
    """VideoLLaMA 3: a tower with rotations in front of Qwen2."""
    sizes = {"patch_size": PATCH, "temporal_patch_size": 1, "merge_size": 1}
    config = t.VideoLlama3Config(
        vision_config=UNSIZED, text_config=TEXT | {"model_type": "qwen2"}, **PADS
    )
    save(t.VideoLlama3ForConditionalGeneration(config), folder)
    t.VideoLlama3Processor(
        t.VideoLlama3ImageProcessor(
            size={"shortest_edge": SIDE * SIDE, "longest_edge": 9 * SIDE * SIDE}, **sizes
        ),
        tokenizer(QWEN),
        t.VideoLlama3VideoProcessor(**sizes),
        chat_template=template("<|image_pad|>"),
    ).save_pretrained(folder)


def lighton_ocr(folder: Path) -> None:
    """LightOnOCR: Pixtral's tower, its patches merged, in front of Qwen3."""
    tokens = ("<|image_pad|>", "<|vision_pad|>", "<|vision_end|>")
    config = t.LightOnOcrConfig(
        vision_config=TOWER | {"model_type": "pixtral", "head_dim": 16, "image_size": 4 * SIDE},
        text_config=TEXT | {"model_type": "qwen3", "head_dim": 16},
        image_token_id=id_of("<|image_pad|>", tokens),
        spatial_merge_size=2,
    )
    save(t.LightOnOcrForConditionalGeneration(config), folder)
    named = {
        "image_token": "<|image_pad|>",
        "image_break_token": "<|vision_pad|>",
        "image_end_token": "<|vision_end|>",
    }
    t.LightOnOcrProcessor(
        t.PixtralImageProcessor(
            size={"longest_edge": 4 * SIDE}, patch_size={"height": PATCH, "width": PATCH}
        ),
        tokenizer(tokens, named=named),
        patch_size=PATCH,
        spatial_merge_size=2,
        chat_template=template("<|image_pad|>"),
    ).save_pretrained(folder)


def ernie4_5_vl_moe(folder: Path) -> None:
    """ERNIE 4.5 VL: experts of texts and of images."""
    tokens = (
        *("<|IMAGE_PLACEHOLDER|>", "<|IMAGE_START|>", "<|IMAGE_END|>"),
        *("<|VIDEO_PLACEHOLDER|>", "<|VIDEO_START|>", "<|VIDEO_END|>"),
    )
    names = ("image_token", "image_start_token", "image_end_token")
    names += ("video_token", "video_start_token", "video_end_token")
    blocks: dict[str, Any] = {
        key: value for key, value in BLOCKS.items() if key != "out_hidden_size"
    }
    config = t.Ernie4_5_VLMoeConfig(
        vision_config=blocks,
        text_config=TEXT
        | {
            "moe_num_experts": 4,
            "moe_k": 2,
            "moe_intermediate_size": [32, 16],
            "mlp_layer_types": ["dense", "sparse"],
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1e4,
                "mrope_section": [3, 3, 2],
            },
        },
        **{f"{name}_id": id_of(token, tokens) for name, token in zip(names, tokens, strict=True)},
    )
    save(t.Ernie4_5_VLMoeForConditionalGeneration(config), folder)
    sizes = {"patch_size": PATCH, "merge_size": 2}
    t.Ernie4_5_VLMoeProcessor(
        t.Ernie4_5_VLMoeImageProcessor(size=PIXELS, **sizes),
        tokenizer(tokens, named=dict(zip(names, tokens, strict=True))),
        t.Ernie4_5_VLMoeVideoProcessor(draw_on_frames=False, **sizes),
        chat_template=template("<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>"),
    ).save_pretrained(folder)


def kimi_k25(folder: Path) -> None:
    """Kimi K2.5: latent attention and experts behind a tower of patches in time."""
    tokens = (
        *("<|media_pad|>", "<|media_begin|>", "<|media_end|>", "<|media_content|>"),
        "<|kimi_k25_video_placeholder|>",
    )
    config = t.Kimi_K25Config(
        vision_config={
            **UNSIZED,
            "pos_emb_height": 8,
            "pos_emb_width": 8,
            "pos_emb_time": 2,
        },
        text_config=TEXT
        | {
            "model_type": "deepseek_v3",
            "num_key_value_heads": 2,
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "n_group": 1,
            "topk_group": 1,
            "moe_intermediate_size": 32,
            "first_k_dense_replace": 1,
            "kv_lora_rank": 16,
            "q_lora_rank": 16,
            "qk_rope_head_dim": 8,
            "qk_nope_head_dim": 8,
            "v_head_dim": 16,
        },
        projection_hidden_size=HIDDEN,
        image_token_id=id_of("<|media_pad|>", tokens),
        video_token_id=id_of("<|kimi_k25_video_placeholder|>", tokens),
        vision_start_token_id=id_of("<|media_begin|>", tokens),
        vision_end_token_id=id_of("<|media_end|>", tokens),
    )
    save(t.Kimi_K25ForConditionalGeneration(config), folder)
    sizes = {"patch_size": PATCH, "merge_size": 2}
    t.Kimi_K25Processor(
        t.Kimi_K25ImageProcessor(size={"max_height": 4 * SIDE, "max_width": 4 * SIDE}, **sizes),
        tokenizer(tokens),
        t.Kimi_K25VideoProcessor(**sizes),
        chat_template=template("<|media_begin|><|media_pad|><|media_end|>"),
    ).save_pretrained(folder)


def paddleocr_vl(folder: Path) -> None:
    """PaddleOCR-VL: a tower with interpolated positions in front of ERNIE 4.5."""
    tokens = ("<|IMAGE_PLACEHOLDER|>", "<|IMAGE_START|>", "<|IMAGE_END|>", "<|video_pad|>")
    config = t.PaddleOCRVLConfig(
        vision_config=TOWER | {"image_size": 2 * SIDE},
        text_config=TEXT | {"head_dim": 16, "rope_parameters": ROTATED},
        image_token_id=id_of("<|IMAGE_PLACEHOLDER|>", tokens),
        video_token_id=id_of("<|video_pad|>", tokens),
        vision_start_token_id=id_of("<|IMAGE_START|>", tokens),
        vision_end_token_id=id_of("<|IMAGE_END|>", tokens),
    )
    save(t.PaddleOCRVLForConditionalGeneration(config), folder)
    t.PaddleOCRVLProcessor(
        t.PaddleOCRVLImageProcessor(
            size=PIXELS, patch_size=PATCH, temporal_patch_size=1, merge_size=2
        ),
        tokenizer(tokens, named={"image_token": "<|IMAGE_PLACEHOLDER|>"}),
        chat_template=template("<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>"),
    ).save_pretrained(folder)


def hunyuan_vl(folder: Path) -> None:
    """HunYuan-VL: rows of an image end with tokens of their own."""
    tokens = ("<img>", "<img_start>", "<img_end>", "<img_newline>")
    config = t.HunYuanVLConfig(
        vision_config={
            **UNSIZED,
            "num_key_value_heads": 2,
            "out_hidden_size": HIDDEN,
            "text_hidden_size": HIDDEN,
            "max_image_size": 8 * SIDE,
            "min_image_size": SIDE,
            "img_max_token_num": 64,
        },
        text_config=TEXT
        | {"head_dim": 16, "rope_parameters": ROTATED | {"mrope_section": [2, 2, 2, 2]}},
        image_token_id=id_of("<img>", tokens),
        im_start_id=id_of("<img_start>", tokens),
        im_end_id=id_of("<img_end>", tokens),
        im_newline_id=id_of("<img_newline>", tokens),
    )
    save(t.HunYuanVLForConditionalGeneration(config), folder)
    named = {
        "image_token": "<img>",
        "image_start_token": "<img_start>",
        "image_end_token": "<img_end>",
    }
    t.HunYuanVLProcessor(
        t.HunYuanVLImageProcessor(size=PIXELS, patch_size=PATCH, merge_size=2),
        tokenizer(tokens, named=named),
        chat_template=template("<img_start><img><img_end>"),
    ).save_pretrained(folder)


def minicpmv4_6(folder: Path) -> None:
    """MiniCPM-V 4.6: slices behind a view, each between tokens, numbered; in front of Qwen3.5."""
    import torch  # noqa: PLC0415 (seconds)

    marks = {
        "image_token": "<|image_pad|>",
        "video_token": "<|video_pad|>",
        "image_start_token": "<image>",
        "image_end_token": "</image>",
        "slice_start_token": "<slice>",
        "slice_end_token": "</slice>",
        "image_id_start_token": "<image_id>",
        "image_id_end_token": "</image_id>",
    }
    tokens, side = (*marks.values(),), 4 * SIDE
    config = t.MiniCPMV4_6Config(
        vision_config=TOWER | {"image_size": side, "insert_layer_id": 0},
        text_config=TEXT | LINEAR | {"model_type": "qwen3_5_text"},
        insert_layer_id=0,
        image_size=side,
        patch_size=PATCH,
        image_token_id=id_of("<|image_pad|>", tokens),
        video_token_id=id_of("<|video_pad|>", tokens),
    )
    model = t.MiniCPMV4_6ForConditionalGeneration(config)
    save(model, folder)
    with torch.no_grad():  # else answers end at once
        model.lm_head.weight[END].zero_()
    model.save_pretrained(folder)
    sizes = {"scale_resolution": side, "max_slice_nums": 4, "patch_size": PATCH}
    t.MiniCPMV4_6Processor(
        t.MiniCPMV4_6ImageProcessor(**sizes),
        t.MiniCPMV4_6VideoProcessor(**sizes),
        tokenizer(tokens, named=marks),
        chat_template=template("<|image_pad|>"),
    ).save_pretrained(folder)


WRITERS: dict[str, Callable[[Path], None]] = {
    one.__name__: one
    for one in (
        *(
            glm4v,
            glm46v,
            glm4v_moe,
            qwen3_vl_moe,
            qwen3_5,
            qwen3_5_moe,
            exaone4_5,
            video_llama_3,
            lighton_ocr,
        ),
        *(ernie4_5_vl_moe, kimi_k25, paddleocr_vl, hunyuan_vl, minicpmv4_6),
    )
}
"""model_type -> what writes a checkpoint of it."""
