"""Pixtral for tests: LLaVA's class with Mistral Small 3.1's tower."""

from dataclasses import replace
from pathlib import Path

from support.families.checkpoints import PATCH, SHARED, SIDE, TEXT, save, t, write_processor
from support.families.mistral3 import CASE as MISTRAL3
from support.families.mistral3 import TEMPLATE, TOKENS
from support.families.words import id_of, write_tokenizer


def write(folder: Path) -> None:
    vision = t.PixtralVisionConfig(**SHARED, image_size=8 * SIDE, patch_size=PATCH)
    config = t.LlavaConfig(
        vision_config=vision.to_dict(),
        # Not hidden / heads, as in the real ones.
        text_config=t.MistralConfig(**TEXT, head_dim=64, sliding_window=None).to_dict(),
        image_token_index=id_of("[IMG]", TOKENS),
        vision_feature_layer=-1,
        vision_feature_select_strategy="full",
        image_seq_length=1,
        tie_word_embeddings=False,
    )
    save(t.LlavaForConditionalGeneration(config), folder)
    write_tokenizer(folder, TOKENS)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    write_processor(
        folder,
        image_processor_type="PixtralImageProcessor",
        patch_size={"height": PATCH, "width": PATCH},
        size={"longest_edge": 4 * SIDE},
    )


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
