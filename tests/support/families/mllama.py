from pathlib import Path
from typing import Any

from support.families.case import Case
from support.families.checkpoints import HEADS, HIDDEN, PATCH, SIDE, TEXT, save, t, write_processor
from support.families.words import id_of, write_tokenizer


def write(folder: Path) -> None:
    tokens = ("<|image|>",)
    ratios = [[1, 1], [1, 2], [1, 3], [1, 4], [2, 1], [2, 2], [3, 1], [4, 1]]
    vision = {
        "hidden_size": HIDDEN,
        "intermediate_size": 64,
        "num_hidden_layers": 3,
        "num_global_layers": 2,
        "attention_heads": HEADS,
        "image_size": SIDE,
        "patch_size": PATCH,
        "max_num_tiles": 4,
        "intermediate_layers_indices": [0, 2],
        "vision_output_dim": HIDDEN * 3,
        "supported_aspect_ratios": ratios,
    }
    text = TEXT | {"num_hidden_layers": 4, "cross_attention_layers": [1, 3]}
    text |= {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}
    config = t.MllamaConfig(
        vision_config=vision, text_config=text, image_token_index=id_of("<|image|>", tokens)
    )
    save(t.MllamaForConditionalGeneration(config), folder)
    write_tokenizer(folder, tokens)
    write_processor(
        folder,
        image_processor_type="MllamaImageProcessor",
        size={"height": SIDE, "width": SIDE},
        max_image_tiles=4,
        do_pad=True,
    )


def cross_attention(upstream: Any, ids: list[int], token: int, given: Any) -> dict[str, Any]:
    import torch  # noqa: PLC0415 (seconds)
    from transformers.models.mllama import processing_mllama as processing  # noqa: PLC0415

    mask = processing.convert_sparse_cross_attention_mask_to_dense(
        [processing.get_cross_attention_token_mask(ids, token)],
        given["aspect_ratio_mask"].sum(-1).tolist(),
        upstream.processor.max_image_tiles,
        len(ids),
    )
    return {"cross_attention_mask": torch.from_numpy(mask)}


CASE = Case(
    write,
    prompt="{images}what is in the image ?",
    mark="<|image|>",
    image_processor="MllamaImageProcessorPil",
    vision_config="transformers:MllamaVisionConfig",
    by_conversation=True,
    more=cross_attention,
    refused=(((1, 60_000), (60_000, 1)), "too different in"),
)
