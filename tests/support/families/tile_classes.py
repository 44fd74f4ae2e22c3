"""Checkpoints of classes whose images become squares, as `own_classes` writes them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.families.checkpoints import HIDDEN, PATCH, SIDE, TEXT, save, t
from support.families.torchvision_classes import SQUARE, TOWER, UNSIZED, template
from support.families.words import SIZE, id_of, tokenizer

SIGLIP = TOWER | {"model_type": "siglip_vision_model", "vision_use_head": False}
CLIP = TOWER | {"model_type": "clip_vision_model"}
LLAMA = TEXT | {"model_type": "llama"}
SAM = {
    "hidden_size": HIDDEN,
    "output_channels": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 64,
    "patch_size": 16,
    "window_size": 2,
    "global_attn_indexes": [1],
    "mlp_dim": 64,
}


def cohere2_vision(folder: Path) -> None:
    """Command A Vision: tiles behind a thumbnail; layers with windows."""
    tokens = ("<|IMG_PATCH|>", "<|START_OF_IMG|>", "<|END_OF_IMG|>", "<|IMG_LINE_BREAK|>")
    # Its processor counts the square of a patch's side as the features of a tile.
    side, patch = 32, 4
    config = t.Cohere2VisionConfig(
        vision_config=SIGLIP | {"image_size": side, "patch_size": patch},
        text_config=TEXT | {"model_type": "cohere2", "sliding_window": 64, "logit_scale": 1.0},
        image_token_id=id_of("<|IMG_PATCH|>", tokens),
        downsample_factor=2,
        alignment_intermediate_size=64,
    )
    save(t.Cohere2VisionForConditionalGeneration(config), folder)
    named = {
        "image_token": "<|IMG_PATCH|>",
        "boi_token": "<|START_OF_IMG|>",
        "eoi_token": "<|END_OF_IMG|>",
        "img_line_break_token": "<|IMG_LINE_BREAK|>",
    }
    t.Cohere2VisionProcessor(
        t.Cohere2VisionImageProcessor(
            size={"height": side, "width": side}, patch_size=patch, max_patches=4
        ),
        tokenizer(tokens, named=named),
        chat_template=template("<|IMG_PATCH|>"),
    ).save_pretrained(folder)


def aria(folder: Path) -> None:
    """Aria: queries read an image's patches; experts, one of them for all tokens."""
    tokens = ("<|img|>",)
    side, patch = 980, 140  # its processor has one size of images, whatever its file says
    config = t.AriaConfig(
        vision_config=TOWER
        | {"model_type": "idefics3_vision", "image_size": side, "patch_size": patch},
        text_config=TEXT
        | {"head_dim": 16, "moe_num_experts": 4, "moe_topk": 2, "moe_num_shared_experts": 1},
        image_token_index=id_of("<|img|>", tokens),
        projector_patch_to_query_dict={(side // patch) ** 2: 4},
    )
    save(t.AriaForConditionalGeneration(config), folder)
    t.AriaProcessor(
        t.AriaImageProcessor(),
        tokenizer(tokens, named={"image_token": "<|img|>"}),
        size_conversion={side: 4},
        chat_template=template("<|img|>"),
    ).save_pretrained(folder)


def _deepseek(folder: Path, kind: str, towers: dict[str, Any], **images: Any) -> None:
    tokens = ("<image_placeholder>",)
    config = getattr(t, f"{kind}Config")(
        vision_config=SIGLIP,
        **towers,
        text_config=LLAMA,
        image_token_id=id_of("<image_placeholder>", tokens),
        tie_word_embeddings=False,
    )
    save(getattr(t, f"{kind}ForConditionalGeneration")(config), folder)
    getattr(t, f"{kind}Processor")(
        getattr(t, f"{kind}ImageProcessor")(size=SQUARE, **images),
        tokenizer(tokens, named={"image_token": "<image_placeholder>"}),
        num_image_tokens=(SIDE // PATCH) ** 2,
        chat_template=template("<image_placeholder>"),
    ).save_pretrained(folder)


def deepseek_vl(folder: Path) -> None:
    _deepseek(folder, "DeepseekVL", {})


def deepseek_vl_hybrid(folder: Path) -> None:
    high = SAM | {"model_type": "sam_vision_model", "num_pos_feats": 8}
    sizes = {"height": 64, "width": 64}
    _deepseek(folder, "DeepseekVLHybrid", {"high_res_vision_config": high}, high_res_size=sizes)


def llava_next_video(folder: Path) -> None:
    """LLaVA-NeXT-Video: its images are LLaVA-NeXT's."""
    tokens = ("<image>", "<video>")
    pinpoints = [[SIDE, 2 * SIDE], [2 * SIDE, SIDE], [2 * SIDE, 2 * SIDE]]
    config = t.LlavaNextVideoConfig(
        vision_config=CLIP,
        text_config=LLAMA,
        image_token_index=id_of("<image>", tokens),
        video_token_index=id_of("<video>", tokens),
        image_grid_pinpoints=pinpoints,
    )
    save(t.LlavaNextVideoForConditionalGeneration(config), folder)
    t.LlavaNextVideoProcessor(
        t.LlavaNextVideoVideoProcessor(size={"shortest_edge": SIDE}, crop_size=SQUARE),
        t.LlavaNextImageProcessor(
            size={"shortest_edge": SIDE}, crop_size=SQUARE, image_grid_pinpoints=pinpoints
        ),
        tokenizer(tokens),
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=template("<image>"),
    ).save_pretrained(folder)


def video_llava(folder: Path) -> None:
    """Video-LLaVA: towers of images and of videos in front of LLaMA."""
    tokens = ("<image>", "<video>")
    config = t.VideoLlavaConfig(
        vision_config=CLIP,
        text_config=LLAMA,
        image_token_index=id_of("<image>", tokens),
        video_token_index=id_of("<video>", tokens),
    )
    save(t.VideoLlavaForConditionalGeneration(config), folder)
    sizes = {"size": {"shortest_edge": SIDE}, "crop_size": SQUARE}
    t.VideoLlavaProcessor(
        t.VideoLlavaImageProcessor(**sizes),
        t.VideoLlavaVideoProcessor(**sizes),
        tokenizer(tokens),
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=template("<image>"),
    ).save_pretrained(folder)


def emu3(folder: Path) -> None:
    """Emu3: images are tokens of a codebook, which the vocabulary names."""
    visual = tuple(f"<|visual token {at:06d}|>" for at in range(8))
    tokens = (
        *("<image>", "<|image start|>", "<|image end|>", "<|image token|>", "<|extra_201|>"),
        *("<|extra_200|>", *visual),
    )
    config = t.Emu3Config(
        vq_config={
            "codebook_size": len(visual),
            "embed_dim": 4,
            "latent_channels": 4,
            "base_channels": 32,
            "channel_multiplier": [1, 1, 1, 1],
            "num_res_blocks": 1,
            "attn_resolutions": [],
            "hidden_size": HIDDEN,
            "temporal_downsample_factor": 4,
        },
        text_config=TEXT,
        vocabulary_map={token: id_of(token, tokens) for token in tokens},
        image_token_id=id_of("<image>", tokens),
    )
    save(t.Emu3ForConditionalGeneration(config), folder)
    named = {
        "image_token": "<image>",
        "boi_token": "<|image start|>",
        "eoi_token": "<|image end|>",
        "image_wrapper_token": "<|image token|>",
        "eof_token": "<|extra_201|>",
    }
    t.Emu3Processor(
        t.Emu3ImageProcessor(min_pixels=32 * 32, max_pixels=64 * 64),
        tokenizer(tokens, named=named),
        chat_template=template("<image>"),
    ).save_pretrained(folder)


def chameleon(folder: Path) -> None:
    """Chameleon: images are tokens of a codebook, which the vocabulary names."""
    # Of a name's letters the class makes the number: A is 0, B is 1.
    visual = tuple(f"IMGIMG{chr(ord('A') + at)}Z" for at in range(8))
    tokens = ("<image>", "<racm3:break>", "<eoss>", "<reserved08706>", *visual)
    config = t.ChameleonConfig(
        **TEXT,
        vq_config={
            "embed_dim": 16,
            "num_embeddings": len(visual),
            "latent_channels": 16,
            "resolution": 32,
            "base_channels": 32,
            "channel_multiplier": [1, 1, 1],
            "num_res_blocks": 1,
        },
        vocabulary_map={token: id_of(token, tokens) for token in tokens},
    )
    save(t.ChameleonForConditionalGeneration(config), folder)
    t.ChameleonProcessor(
        t.ChameleonImageProcessor(
            size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
        ),
        tokenizer(tokens),
        image_seq_length=64,
    ).save_pretrained(folder)


def _gemma4(folder: Path, name: str, tower: dict[str, Any], text: dict[str, Any]) -> None:
    tokens = ("<|image|>", "<|image>", "<image|>", "<|video|>", "<|audio|>", "<|audio>", "<audio|>")
    config = getattr(t, f"{name}Config")(
        vision_config=tower,
        audio_config=None,
        text_config=TEXT
        | {
            "head_dim": 16,
            "global_head_dim": 16,
            "num_global_key_value_heads": 1,
            "sliding_window": 64,
            "layer_types": ["sliding_attention", "full_attention"],
            **text,
        },
        image_token_id=id_of("<|image|>", tokens),
        boi_token_id=id_of("<|image>", tokens),
        eoi_token_id=id_of("<image|>", tokens),
        video_token_id=id_of("<|video|>", tokens),
        audio_token_id=id_of("<|audio|>", tokens),
        tie_word_embeddings=False,
    )
    save(getattr(t, f"{name}ForConditionalGeneration")(config), folder)
    named = {"image_token": "<|image|>", "boi_token": "<|image>", "eoi_token": "<image|>"}
    named |= {"audio_token": "<|audio|>", "boa_token": "<|audio>", "eoa_token": "<audio|>"}
    sizes = {"patch_size": 4, "pooling_kernel_size": 2, "max_soft_tokens": 70}
    feature_extractor = (
        getattr(t, f"{name}AudioFeatureExtractor", None) or t.Gemma4AudioFeatureExtractor
    )
    getattr(t, f"{name}Processor")(
        feature_extractor(),
        getattr(t, f"{name}ImageProcessor")(**sizes),
        tokenizer(tokens, named=named),
        getattr(t, f"{name}VideoProcessor")(**sizes),
        image_seq_length=70,
        chat_template=template("<|image|>"),
    ).save_pretrained(folder)


def gemma4(folder: Path) -> None:
    """Gemma 4: images keep their shape, patches are pooled; embeddings for each layer."""
    _gemma4(
        folder,
        "Gemma4",
        {
            **UNSIZED,
            "head_dim": 16,
            "num_key_value_heads": 2,
            "patch_size": 4,
            "pooling_kernel_size": 2,
            "position_embedding_size": 256,
        },
        {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": SIZE},
    )


def gemma4_unified(folder: Path) -> None:
    """Gemma 4 without a tower: a matrix reads merged patches; images see all of themselves."""
    _gemma4(
        folder,
        "Gemma4Unified",
        {
            "patch_size": 4,
            "pooling_kernel_size": 2,
            "mm_embed_dim": HIDDEN,
            "mm_posemb_size": 64,
            "output_proj_dims": HIDDEN,
        },
        {},
    )


WRITERS: dict[str, Callable[[Path], None]] = {
    one.__name__: one
    for one in (
        *(cohere2_vision, aria, deepseek_vl, deepseek_vl_hybrid, llava_next_video, video_llava),
        *(emu3, chameleon, gemma4, gemma4_unified),
    )
}
"""model_type -> what writes a checkpoint of it."""
