"""InternVL in both of its layouts: transformers' own, and OpenGVLab's with the same weights."""

import json
from pathlib import Path
from typing import Any

import torch
from transformers import (
    CONFIG_MAPPING,
    InternVLConfig,
    InternVLForConditionalGeneration,
    InternVLVisionConfig,
)

from support.families.checkpoints import PATCH, SHARED, SIDE, TEXT, save, write_processor
from support.families.internvl import TEMPLATE
from support.families.words import END, id_of, write_tokenizer

TOKENS = ("<|im_start|>", "<|im_end|>", "<img>", "</img>", "<IMG_CONTEXT>")
MOST_TILES = 6
CODE = "configuration_internvl_chat.py"
"""Of the checkpoint: what imports it writes a file beside it."""


def write_both(folder: Path, decoder: str = "qwen2") -> tuple[Path, Path]:
    """Write one model twice and return the folders of transformers' and of OpenGVLab's layout."""
    torch.manual_seed(11)
    classes, own = folder / "of-the-class", folder / "of-opengvlab"
    classes.mkdir()
    own.mkdir()
    text = CONFIG_MAPPING[decoder](**TEXT | ({"head_dim": 16} if decoder == "qwen3" else {}))
    vision = InternVLVisionConfig(
        **SHARED, image_size=[SIDE, SIDE], patch_size=[PATCH // 2] * 2, attention_bias=True
    )
    config = InternVLConfig(
        vision_config=vision.to_dict(),
        text_config=text.to_dict(),
        image_token_id=id_of("<IMG_CONTEXT>", TOKENS),
        image_seq_length=4,
        tie_word_embeddings=False,
    )
    model = InternVLForConditionalGeneration(config)
    save(model, classes)
    ends = {"eos_token_id": [END, id_of("<|im_end|>", TOKENS)]}
    (classes / "generation_config.json").write_text(json.dumps(ends))
    write_tokenizer(classes, TOKENS)
    (classes / "chat_template.jinja").write_text(TEMPLATE)
    write_processor(
        classes,
        image_processor_type="GotOcr2ImageProcessor",
        size={"height": SIDE, "width": SIDE},
        crop_to_patches=True,
        min_patches=1,
        max_patches=MOST_TILES,
    )
    _write_own(own, model, text.to_dict())
    return classes, own


def _write_own(folder: Path, model: Any, text: dict[str, Any]) -> None:
    from safetensors.torch import save_file  # noqa: PLC0415

    save_file(own_weights(model.state_dict()), folder / "model.safetensors")
    config = {
        "model_type": "internvl_chat",
        "architectures": ["InternVLChatModel"],
        "auto_map": {"AutoConfig": f"{CODE.removesuffix('.py')}.InternVLChatConfig"},
        "llm_config": text
        | {"attn_implementation": "flash_attention_2", "tie_word_embeddings": False},
        "vision_config": SHARED
        | {
            "model_type": "intern_vit_6b",
            "image_size": SIDE,
            "patch_size": PATCH // 2,
            "norm_type": "layer_norm",
            "qk_normalization": False,
            "qkv_bias": True,
            "use_flash_attn": True,
        },
        "downsample_ratio": 0.5,
        "dynamic_image_size": True,
        "force_image_size": SIDE,
        "max_dynamic_patch": MOST_TILES,
        "min_dynamic_patch": 1,
        "ps_version": "v2",
        "select_layer": -1,
        "template": "internvl2_5",
        "use_thumbnail": True,
        "torch_dtype": "float32",
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / CODE).write_text("from pathlib import Path\nPath(__file__ + '.ran').touch()\n")
    write_tokenizer(folder, TOKENS)
    given = {"feature_extractor_type": "CLIPFeatureExtractor", "crop_size": SIDE, "size": SIDE}
    colours = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(given | colours))


def own_weights(weights: dict[str, Any]) -> dict[str, Any]:
    """Return a state dict of transformers' class under OpenGVLab's names."""
    import torch  # noqa: PLC0415

    found: dict[str, Any] = {}
    tower, chat = "model.vision_tower.", "vision_model."
    plain = {
        "embeddings.cls_token": "embeddings.class_embedding",
        "embeddings.position_embeddings": "embeddings.position_embedding",
        "embeddings.patch_embeddings.projection.weight": "embeddings.patch_embedding.weight",
        "embeddings.patch_embeddings.projection.bias": "embeddings.patch_embedding.bias",
    }
    within = {
        "lambda_1": "ls1",
        "lambda_2": "ls2",
        "layernorm_before": "norm1",
        "layernorm_after": "norm2",
        "attention.projection_layer": "attn.proj",
        "attention.q_norm": "attn.q_norm",
        "attention.k_norm": "attn.k_norm",
        "mlp.fc1": "mlp.fc1",
        "mlp.fc2": "mlp.fc2",
    }
    projector = {"layer_norm": "mlp1.0", "linear_1": "mlp1.1", "linear_2": "mlp1.3"}
    for name, value in weights.items():
        if name.startswith("lm_head."):
            found[f"language_model.{name}"] = value.clone()
        elif name.startswith("model.language_model."):
            inner = name.removeprefix("model.language_model.")
            found[f"language_model.model.{inner}"] = value.clone()
        elif name.startswith("model.multi_modal_projector."):
            part, kind = name.removeprefix("model.multi_modal_projector.").split(".")
            found[f"{projector[part]}.{kind}"] = value.clone()
        elif (inner := name.removeprefix(tower)) in plain:
            found[chat + plain[inner]] = value.clone()
        elif ".attention.q_proj." in name:
            parts = (weights[name.replace("q_proj", f"{one}_proj")] for one in "qkv")
            _, _, number, _, _, kind = inner.split(".")
            layer = f"{chat}encoder.layers.{number}"
            found[f"{layer}.attn.qkv.{kind}"] = torch.cat(list(parts))
        elif ".attention.k_proj." not in name and ".attention.v_proj." not in name:
            _, _, number, rest = inner.split(".", 3)
            part = next(one for one in within if rest == one or rest.startswith(f"{one}."))
            layer = f"{chat}encoder.layers.{number}"
            found[f"{layer}.{within[part]}{rest.removeprefix(part)}"] = value.clone()
    return found
