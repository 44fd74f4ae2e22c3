"""Pixtral for tests: LLaVA's class with Mistral Small 3.1's tower."""

from dataclasses import replace
from pathlib import Path

from support.families.checkpoints import PATCH, t
from support.families.mistral3 import CASE as MISTRAL3
from support.families.mistral3 import write_of_pixtral


def write(folder: Path) -> None:
    more = {"vision_feature_layer": -1, "vision_feature_select_strategy": "full"}
    classes = (t.LlavaConfig, t.LlavaForConditionalGeneration)
    write_of_pixtral(folder, *classes, PATCH, **more, image_seq_length=1)


CASE = replace(
    MISTRAL3,
    write=write,
    image_settings={"patch_size": PATCH},
    vision_config=None,  # what its class leaves out is what LLaVA 1.5 has
    refused_configurations=(
        ({"vision_feature_select_strategy": "default"}, "strategy is 'default'"),
        ({"text_config": {"model_type": "llama"}}, "expected mistral"),
        ({"text_config": {"sliding_window": 4096}}, "sliding_window is 4096"),
        ({"vision_feature_layer": None}, "vision_feature_layer is -2"),
    ),
)
