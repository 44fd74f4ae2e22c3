"""LLaVA-NeXT for tests, with Mistral as its language model."""

from pathlib import Path

from support.families.case import Case
from support.families.checkpoints import PATCH, SHARED, SIDE, TEXT, save, t, write_processor
from support.families.words import id_of, write_tokenizer

TEMPLATE = (
    "{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST] ' }}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}"
    "{{ '<image>\n' }}{% endfor %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}"
    "{{ content['text'] + ' ' }}{% endfor %}{{ '[/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ ' ' }}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}"
    "{{ content['text'] }}{% endfor %}{{ '</s>' }}"
    "{% else %}{{ raise_exception('only user and assistant speak') }}{% endif %}{% endfor %}"
)
"""That of llava-v1.6-mistral-7b-hf, without its marks of generated parts."""


def write(folder: Path) -> None:
    tokens = ("<image>", "[INST]", "[/INST]")
    pinpoints = [
        [SIDE * high, SIDE * wide] for high, wide in ((1, 2), (2, 1), (2, 2), (3, 1), (1, 3))
    ]
    config = t.LlavaNextConfig(
        vision_config=t.CLIPVisionConfig(**SHARED, image_size=SIDE, patch_size=PATCH).to_dict(),
        text_config=t.MistralConfig(**TEXT, sliding_window=None).to_dict(),
        image_token_index=id_of("<image>", tokens),
        image_grid_pinpoints=pinpoints,
    )
    save(t.LlavaNextForConditionalGeneration(config), folder)
    write_tokenizer(folder, tokens)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    write_processor(
        folder,
        image_processor_type="LlavaNextImageProcessor",
        size={"shortest_edge": SIDE},
        crop_size={"height": SIDE, "width": SIDE},
        do_center_crop=True,
        do_pad=True,
        image_grid_pinpoints=pinpoints,
    )


CASE = Case(
    write,
    prompt="[INST] {images}what is in the image ? [/INST]",
    mark="<image>\n",
    image_processor="LlavaNextImageProcessorPil",
    vision_config="transformers:CLIPVisionConfig",
    refused_configurations=(
        ({"vision_feature_select_strategy": "full"}, "class token"),
        ({"text_config": {"model_type": "qwen2"}}, "llama or mistral"),
        ({"text_config": {"model_type": "mistral"}}, "sliding_window is 4096"),
        ({"image_grid_pinpoints": [[336]]}, "pairs"),
    ),
    packing={"vision_feature_select_strategy": "default"},
)
