"""SmolVLM 2 for tests."""

from dataclasses import replace
from pathlib import Path

from support.families.idefics3 import CASE as IDEFICS3
from support.families.idefics3 import TOKENS, write_as

OWN = ("<|im_start|>", *TOKENS)


def write(folder: Path) -> None:
    """Write a checkpoint into a folder."""
    write_as(folder, "SmolVLM", OWN, "<|im_start|>")


CASE = replace(
    IDEFICS3,
    write=write,
    prompt=IDEFICS3.prompt.replace("<s>", "<|im_start|>"),
    image_processor="SmolVLMImageProcessorPil",
    vision_config="transformers:SmolVLMVisionConfig",
)
