from pathlib import Path
from typing import Any

from support.families.case import Case, Prepared
from support.families.checkpoints import PATCH, SHARED, SIDE, TEXT, save, t, write_processor
from support.families.words import id_of, write_tokenizer

TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + ' '}}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}"
    "{{ '<image>\n' }}{% endfor %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'video') %}"
    "{{ '<video>\n' }}{% endfor %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}"
    "{{ '\n' + content['text'] }}{% endfor %}{{'<|im_end|>'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""That of llava-hf's checkpoints, without its special case for answers."""


def write(folder: Path) -> None:
    tokens = ("<|im_start|>", "<|im_end|>", "<image>", "<video>")
    pinpoints = [[SIDE * high, SIDE * wide] for high in (1, 2, 3) for wide in (1, 2, 3)]
    tower = t.SiglipVisionConfig(**SHARED, image_size=SIDE, patch_size=PATCH)
    config = t.LlavaOnevisionConfig(
        vision_config=tower.to_dict(),
        text_config=t.Qwen2Config(**TEXT).to_dict(),
        image_token_index=id_of("<image>", tokens),
        video_token_index=id_of("<video>", tokens),
        image_grid_pinpoints=pinpoints,
        vision_aspect_ratio="anyres_max_4",
        tie_word_embeddings=False,
    )
    save(t.LlavaOnevisionForConditionalGeneration(config), folder)
    write_tokenizer(folder, tokens)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    write_processor(
        folder,
        image_processor_type="LlavaOnevisionImageProcessor",
        size={"height": SIDE, "width": SIDE},
        image_grid_pinpoints=pinpoints,
        do_pad=True,
    )


def video(prepared: Prepared, places: list[int]) -> dict[str, Any]:
    import torch  # noqa: PLC0415 (seconds)

    del places
    return {"pixel_values_videos": torch.from_numpy(prepared["PIXEL_VALUES"]).float()}


CASE = Case(
    write,
    prompt="<|im_start|>user {images}\nwhat is in the image ?<|im_end|><|im_start|>assistant\n",
    mark="<image>\n",
    video_mark="<video>\n",
    image_processor="LlavaOnevisionImageProcessorPil",
    by_conversation=True,
    refused_configurations=(
        ({"image_grid_pinpoints": [[384]]}, "pairs"),
        ({"vision_aspect_ratio": "pad"}, "anyres_max"),
    ),
    packing={"vision_aspect_ratio": "anyres_max_4"},
    video=video,
)
