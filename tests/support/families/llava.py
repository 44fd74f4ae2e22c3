from pathlib import Path

from mm_api.families.llava import WRAPPER
from support.families.case import Case
from support.families.checkpoints import PATCH, SHARED, SIDE, TEXT, save, t, write_processor
from support.families.words import id_of, write_tokenizer


def write(folder: Path, side: int = SIDE, **tower_sizes: int) -> None:
    tokens = ("<image>",)
    tower = t.CLIPVisionConfig(**SHARED | tower_sizes, image_size=side, patch_size=PATCH)
    config = t.LlavaConfig(
        vision_config=tower.to_dict(),
        text_config=t.LlamaConfig(**TEXT).to_dict(),
        image_token_index=id_of("<image>", tokens),
        vision_feature_layer=-2,
    )
    save(t.LlavaForConditionalGeneration(config), folder)
    write_tokenizer(folder, tokens)
    (folder / "chat_template.jinja").write_text(WRAPPER)
    square = {"height": side, "width": side}
    write_processor(
        folder,
        image_processor_type="CLIPImageProcessor",
        size={"shortest_edge": side},
        crop_size=square,
        do_center_crop=True,
    )


CASE = Case(
    write, image_processor="CLIPImageProcessorPil", vision_config="transformers:CLIPVisionConfig"
)
