from pathlib import Path
from typing import Any

from support.families.case import Case
from support.families.checkpoints import PATCH, SHARED, SIDE, TEXT, save, t, write_processor
from support.families.words import id_of, write_tokenizer

SMALL = PATCH // 2
"""Pixels of a patch's side. Upstream's class fails on images of a single feature."""

TOKENS = ("[IMG]", "[IMG_BREAK]", "[IMG_END]", "[INST]", "[/INST]")

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST]' }}"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for block in message['content'] %}{% if block['type'] == 'text' %}{{ block['text'] }}"
    "{% elif block['type'] in ['image', 'image_url'] %}{{ '[IMG]' }}{% else %}"
    "{{ raise_exception('Only text and image blocks are supported in message content!') }}"
    "{% endif %}{% endfor %}{% endif %}{{ '[/INST]' }}"
    "{% elif message['role'] == 'assistant' %}"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{{ message['content'][0]['text'] }}{% endif %}{{ eos_token }}"
    "{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}"
    "{% endif %}{% endfor %}"
)
"""That of Mistral-Small-3.1's checkpoints, without its system prompt, which holds dates."""


def write(folder: Path) -> None:
    write_of_pixtral(folder, t.Mistral3Config, t.Mistral3ForConditionalGeneration, SMALL)


def write_of_pixtral(folder: Path, config: Any, model: Any, patch: int, **more: Any) -> None:
    """Write a checkpoint of a class that has Pixtral's tower; `more` are of its configuration."""
    vision = t.PixtralVisionConfig(**SHARED, image_size=4 * SIDE, patch_size=patch)
    given = config(
        vision_config=vision.to_dict(),
        # Not hidden / heads, as in the real ones.
        text_config=t.MistralConfig(**TEXT, head_dim=64, sliding_window=None).to_dict(),
        image_token_index=id_of("[IMG]", TOKENS),
        tie_word_embeddings=False,
        **more,
    )
    save(model(given), folder)
    write_tokenizer(folder, TOKENS)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    write_processor(
        folder,
        image_processor_type="PixtralImageProcessor",
        patch_size={"height": patch, "width": patch},
        size={"longest_edge": 4 * SIDE},
    )


CASE = Case(
    write,
    prompt="<s>[INST]{images}what is in the image ?[/INST]",
    mark="[IMG]",
    image_processor="PixtralImageProcessorPil",
    image_settings={"patch_size": 2 * SMALL},
    vision_config="transformers:PixtralVisionConfig",
    text_kind="mistral",
    refused_configurations=(
        ({"text_config": {"model_type": "ministral3"}}, "expected mistral"),
        ({"text_config": {"sliding_window": 4096}}, "sliding_window is 4096"),
        ({"vision_feature_layer": -2}, "vision_feature_layer is -2"),
        ({"vision_config": {"image_size": 512}}, "size.longest_edge is 1024"),
    ),
)
