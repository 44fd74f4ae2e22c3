from pathlib import Path

from support.families.case import Case
from support.families.checkpoints import (
    HEADS,
    HIDDEN,
    LAYERS,
    PATCH,
    SHARED,
    SIDE,
    save,
    t,
    write_processor,
)
from support.families.words import BEGIN, END, PAD, SIZE, id_of, write_tokenizer


def write(folder: Path) -> None:
    tokens = ("<image>",)
    config = t.Blip2Config(
        vision_config=t.Blip2VisionConfig(**SHARED, image_size=SIDE, patch_size=PATCH).to_dict(),
        qformer_config=t.Blip2QFormerConfig(**SHARED, encoder_hidden_size=HIDDEN).to_dict(),
        text_config=t.OPTConfig(
            hidden_size=HIDDEN,
            word_embed_proj_dim=HIDDEN,
            ffn_dim=64,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            vocab_size=SIZE,
            max_position_embeddings=512,
            bos_token_id=BEGIN,
            eos_token_id=END,
            pad_token_id=PAD,
            tie_word_embeddings=False,
        ).to_dict(),
        num_query_tokens=5,
        image_token_index=id_of("<image>", tokens),
    )
    save(t.Blip2ForConditionalGeneration(config), folder)
    write_tokenizer(folder, tokens)
    write_processor(
        folder, image_processor_type="BlipImageProcessor", size={"height": SIDE, "width": SIDE}
    )


CASE = Case(
    write,
    prompt="{images}what is in the image ?",
    mark="<image>",
    image_processor="BlipImageProcessorPil",
    vision_config="transformers:Blip2VisionConfig",
    not_compared={
        "two-images": "transformers' generate takes one image a prompt for BLIP-2",
        "text-only": "transformers' generate wants an image for BLIP-2",
    },
)
