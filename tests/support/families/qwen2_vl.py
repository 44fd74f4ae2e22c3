from pathlib import Path
from typing import Any

from support.families.case import Case, Prepared
from support.families.checkpoints import (
    HEADS,
    HIDDEN,
    LAYERS,
    PATCH,
    SIDE,
    TEXT,
    head_size,
    save,
    write_processor,
)
from support.families.words import id_of, write_tokenizer

TOKENS = (
    *("<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>"),
    *("<|image_pad|>", "<|video_pad|>"),
)

TEMPLATE = (
    "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}"
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}"
    "<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}<|im_end|>\n"
    "{% else %}{% for content in message['content'] %}"
    "{% if content['type'] == 'image' or 'image' in content %}"
    "<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif content['type'] == 'video' or 'video' in content %}"
    "<|vision_start|><|video_pad|><|vision_end|>"
    "{% elif 'text' in content %}{{ content['text'] }}{% endif %}{% endfor %}<|im_end|>\n"
    "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""That of Qwen2-VL's checkpoints, without their numbering of images."""


def write_qwen(folder: Path, name: str, vision: dict[str, Any], text: dict[str, Any]) -> None:
    """Write a checkpoint of a class of Qwen's, with the tokens and the tower's sizes of all."""
    import transformers  # noqa: PLC0415 (seconds)

    eighth = head_size() // 16
    sections = [2 * eighth, 3 * eighth, 3 * eighth]
    rotated = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": sections}
    config = getattr(transformers, f"{name}Config")(
        vision_config={
            "depth": LAYERS,
            "hidden_size": HIDDEN,
            "num_heads": HEADS,
            "patch_size": PATCH,
            **vision,
        },
        text_config=TEXT | {"rope_parameters": rotated} | text,
        image_token_id=id_of("<|image_pad|>", TOKENS),
        video_token_id=id_of("<|video_pad|>", TOKENS),
        vision_start_token_id=id_of("<|vision_start|>", TOKENS),
        vision_end_token_id=id_of("<|vision_end|>", TOKENS),
        tie_word_embeddings=False,
    )
    save(getattr(transformers, f"{name}ForConditionalGeneration")(config), folder)
    write_tokenizer(folder, TOKENS)


def write_images(folder: Path, **bounds: object) -> None:
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    write_processor(
        folder,
        image_processor_type="Qwen2VLImageProcessor",
        patch_size=PATCH,
        temporal_patch_size=2,
        merge_size=2,
        **(bounds or {"min_pixels": 4 * SIDE * SIDE, "max_pixels": 32 * SIDE * SIDE}),
    )


def write(folder: Path) -> None:
    write_qwen(folder, "Qwen2VL", {"embed_dim": HIDDEN, "mlp_ratio": 2}, {})
    write_images(folder)


def kinds_of_tokens(upstream: Any, ids: list[int], token: int, given: Any) -> dict[str, Any]:
    import torch  # noqa: PLC0415 (seconds)

    del upstream, given
    return {"mm_token_type_ids": torch.tensor([[int(one == token) for one in ids]])}


def video(prepared: Prepared, places: list[int]) -> dict[str, Any]:
    import torch  # noqa: PLC0415 (seconds)

    seconds = prepared.get("SECOND_PER_GRID_TS")
    return {
        "pixel_values_videos": torch.from_numpy(prepared["PIXEL_VALUES"][0]).float()[0, 0],
        "video_grid_thw": torch.from_numpy(prepared["IMAGE_GRID_THW"]).reshape(1, 3),
        **({"second_per_grid_ts": torch.from_numpy(seconds)} if seconds is not None else {}),
        "mm_token_type_ids": torch.tensor([[2 * one for one in places]]),
    }


CASE = Case(
    write,
    prompt="<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
    "{images}what is in the image ?<|im_end|>\n<|im_start|>assistant\n",
    mark="<|vision_start|><|image_pad|><|vision_end|>",
    video_mark="<|vision_start|><|video_pad|><|vision_end|>",
    image_processor="Qwen2VLImageProcessorPil",
    vision_config="transformers.models.qwen2_vl.configuration_qwen2_vl:Qwen2VLVisionConfig",
    more=kinds_of_tokens,
    video=video,
)
