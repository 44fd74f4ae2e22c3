"""Qwen2.5-VL for tests: a tower of which one layer sees windows and the other one all."""

from pathlib import Path

from support.families.case import Case
from support.families.checkpoints import (
    HEADS,
    HIDDEN,
    LAYERS,
    PATCH,
    SIDE,
    TEXT,
    save,
    write_processor,
)
from support.families.qwen2_vl import CASE as QWEN2_VL
from support.families.qwen2_vl import TEMPLATE, TOKENS, video
from support.families.words import id_of, write_tokenizer


def write(folder: Path) -> None:
    """Write a checkpoint into a folder."""
    from transformers import (  # noqa: PLC0415
        Qwen2_5_VLConfig,
        Qwen2_5_VLForConditionalGeneration,
    )

    vision = {
        "depth": LAYERS,
        "hidden_size": HIDDEN,
        "num_heads": HEADS,
        "intermediate_size": 48,
        "out_hidden_size": HIDDEN,
        "patch_size": PATCH,
        "window_size": 2 * SIDE,
        "fullatt_block_indexes": [1],
        "tokens_per_second": 2,
    }
    text = TEXT | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}
    text["rope_parameters"]["mrope_section"] = [2, 3, 3]
    config = Qwen2_5_VLConfig(
        vision_config=vision,
        text_config=text,
        image_token_id=id_of("<|image_pad|>", TOKENS),
        video_token_id=id_of("<|video_pad|>", TOKENS),
        vision_start_token_id=id_of("<|vision_start|>", TOKENS),
        vision_end_token_id=id_of("<|vision_end|>", TOKENS),
        tie_word_embeddings=False,
    )
    save(Qwen2_5_VLForConditionalGeneration(config), folder)
    write_tokenizer(folder, TOKENS)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    write_processor(
        folder,
        image_processor_type="Qwen2VLImageProcessor",
        min_pixels=4 * SIDE * SIDE,
        max_pixels=32 * SIDE * SIDE,
        patch_size=PATCH,
        temporal_patch_size=2,
        merge_size=2,
    )


CASE = Case(
    write,
    prompt=QWEN2_VL.prompt,
    mark=QWEN2_VL.mark,
    video_mark=QWEN2_VL.video_mark,
    image_processor=QWEN2_VL.image_processor,
    vision_config="transformers:Qwen2_5_VLVisionConfig",
    more=QWEN2_VL.more,
    video=video,
    refused_configurations=(({"use_sliding_window": True}, "use_sliding_window"),),
)
