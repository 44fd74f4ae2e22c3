"""Idefics3 for tests, and what SmolVLM shares with it."""

from pathlib import Path
from typing import Any

from support.families.case import Case
from support.families.checkpoints import PATCH, SHARED, SIDE, TEXT, save, write_processor
from support.families.words import id_of, write_tokenizer

TOKENS = (
    *("<fake_token_around_image>", "<global-img>", "<image>", "<end_of_utterance>"),
    *(f"<row_{row}_col_{column}>" for row in range(1, 4) for column in range(1, 4)),
)

TEMPLATE = (
    "OPENING{% for message in messages %}{{message['role'] | capitalize}}"
    "{% if message['content'] is not string and message['content'][0]['type'] == 'image' %}"
    "{{':'}}{% else %}{{': '}}{% endif %}"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for line in message['content'] %}{% if line['type'] == 'text' %}{{line['text']}}"
    "{% elif line['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}{% endif %}"
    "<end_of_utterance>\n{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
)
"""That of the checkpoints, which takes no plain texts."""


def write_as(folder: Path, name: str, tokens: tuple[str, ...], opening: str) -> None:
    import transformers  # noqa: PLC0415

    kinds: dict[str, Any] = {
        part: getattr(transformers, name + part)
        for part in ("Config", "VisionConfig", "ForConditionalGeneration")
    }
    vision = kinds["VisionConfig"](**SHARED, image_size=SIDE, patch_size=PATCH // 2)
    config = kinds["Config"](
        vision_config=vision.to_dict(),
        text_config=transformers.LlamaConfig(**TEXT).to_dict(),
        image_token_id=id_of("<image>", tokens),
        scale_factor=2,
        tie_word_embeddings=False,
    )
    save(kinds["ForConditionalGeneration"](config), folder)
    write_tokenizer(folder, tokens)
    (folder / "chat_template.jinja").write_text(TEMPLATE.replace("OPENING", opening))
    write_processor(
        folder,
        image_processor_type=f"{name}ImageProcessor",
        size={"longest_edge": 3 * SIDE},
        max_image_size={"longest_edge": SIDE},
        do_image_splitting=True,
        do_pad=True,
        resample=1,
    )


def write(folder: Path) -> None:
    write_as(folder, "Idefics3", TOKENS, "<s>")


CASE = Case(
    write,
    prompt="<s>User:{images}what is in the image ?<end_of_utterance>\nAssistant:",
    mark="<image>",
    image_processor="Idefics3ImageProcessorPil",
    vision_config="transformers:Idefics3VisionConfig",
    by_conversation=True,
    refused_configurations=(
        ({"text_config": {"model_type": "qwen2"}}, "expected llama"),
        ({"scale_factor": 5}, "scale_factor is 5"),
    ),
)
