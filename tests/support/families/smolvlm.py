from dataclasses import replace
from pathlib import Path

from support.families.idefics3 import CASE as IDEFICS3
from support.families.idefics3 import TEMPLATE, TOKENS, write_as
from support.families.words import name_extras

OWN = ("<|im_start|>", *TOKENS)
VIDEOS = "{% elif line['type'] == 'video' %}{{ '<video>' }}"


def write(folder: Path) -> None:
    write_as(folder, "SmolVLM", OWN, "<|im_start|>")
    name_extras(folder, ("00", "01"))  # of times
    images = "{{ '<image>' }}"
    template = TEMPLATE.replace("OPENING", "<|im_start|>").replace(images, images + VIDEOS)
    (folder / "chat_template.jinja").write_text(template)


CASE = replace(
    IDEFICS3,
    write=write,
    prompt=IDEFICS3.prompt.replace("<s>", "<|im_start|>"),
    image_processor="SmolVLMImageProcessorPil",
    vision_config="transformers:SmolVLMVisionConfig",
)
