"""Phi-3-vision for tests; transformers has no class for it, only for its parts."""

import json
from pathlib import Path
from typing import Any

from support.families.case import Case
from support.families.checkpoints import TEXT
from support.families.words import BEGIN, id_of, write_tokenizer

TOKENS = ("<|user|>", "<|assistant|>", "<|end|>", "<|image|>", "<|system|>")
WIDTH, FEATURES = 64, 4
"""Of the tower, whose heads have 64 numbers, and of a tile: 4 x 4 patches, 56 pixels a side."""

SIDE = 56
CROPS = 4
POSITIONS = 300
"""Beyond which rotations have other frequencies; prompts of the smallest answers stay below."""

TOWER = "model.vision_embed_tokens.img_processor.vision_model"


def factors(seed: int, least: float) -> list[float]:
    """Return a factor for each pair of a head of 16."""
    return [round(least + 0.1 * ((seed + at) % 7), 2) for at in range(8)]


def config() -> dict[str, Any]:
    """Return config.json: small, with the keys of the published ones."""
    return TEXT | {
        "model_type": "phi3_v",
        "architectures": ["Phi3VForCausalLM"],
        "auto_map": {"AutoConfig": "configuration_phi3_v.Phi3VConfig"},
        "embd_layer": {
            "embedding_cls": "image",
            "hd_transform_order": "sub_glb",
            "projection_cls": "mlp",
            "use_hd_transform": True,
            "with_learnable_separator": True,
        },
        "img_processor": {
            "image_dim_out": WIDTH,
            "layer_idx": 2,  # of 24: a build exports the layers up to it
            "model_name": "openai/clip-vit-large-patch14-336",
            "name": "clip_vision_model",
            "num_img_tokens": FEATURES,
        },
        "original_max_position_embeddings": POSITIONS,
        "max_position_embeddings": 4 * POSITIONS,
        "rope_scaling": {
            "type": "su",
            "short_factor": factors(1, 1.0),
            "long_factor": factors(4, 3.0),
        },
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "sliding_window": 4 * POSITIONS,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
    }


def write(folder: Path) -> None:
    """Write a checkpoint into a folder."""
    import torch  # noqa: PLC0415
    from safetensors.torch import save_file  # noqa: PLC0415
    from transformers import (  # noqa: PLC0415
        CLIPVisionConfig,
        CLIPVisionModel,
        Phi3Config,
        Phi3ForCausalLM,
    )

    text = Phi3Config(**TEXT)
    tower = CLIPVisionConfig(
        hidden_size=WIDTH,
        intermediate_size=4 * WIDTH,
        num_hidden_layers=24,
        num_attention_heads=1,
        image_size=SIDE,
        patch_size=14,
    )
    hidden, joined = text.hidden_size, 4 * WIDTH
    embedding = "model.vision_embed_tokens"
    shapes = {
        f"{embedding}.img_projection.0.weight": (hidden, joined),
        f"{embedding}.img_projection.0.bias": (hidden,),
        f"{embedding}.img_projection.2.weight": (hidden, hidden),
        f"{embedding}.img_projection.2.bias": (hidden,),
        f"{embedding}.sub_GN": (1, 1, 1, joined),
        f"{embedding}.glb_GN": (1, 1, joined),
    }
    shapes |= {n: tuple(v.shape) for n, v in Phi3ForCausalLM(text).state_dict().items()}
    shapes |= {
        f"{TOWER}.{n}": tuple(v.shape) for n, v in CLIPVisionModel(tower).state_dict().items()
    }
    weights = {name: _weight(torch, name, shape) for name, shape in shapes.items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config(), indent=1))
    settings = {"image_processor_type": "Phi3VImageProcessor", "num_crops": CROPS}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    ends = {"eos_token_id": [id_of("<|end|>", TOKENS)], "pad_token_id": TEXT["pad_token_id"]}
    (folder / "generation_config.json").write_text(json.dumps(ends))
    write_tokenizer(folder, TOKENS)
    _begin_texts(folder / "tokenizer.json")


def _weight(torch: Any, name: str, shape: tuple[int, ...]) -> Any:
    """Return a weight that matters; norms keep the states of 24 layers apart."""
    if "norm" in name:
        return torch.randn(shape) * 0.2 + (name.endswith("weight"))
    scale = 0.15 if "vision_model.encoder" not in name else 0.08
    return torch.randn(shape) * (scale if len(shape) > 1 else 0.2)


def _begin_texts(file: Path) -> None:
    """Have the begin token before each text, as Llama's tokenizer of the checkpoints has it."""
    stored = json.loads(file.read_text())
    begin = {"id": "<s>", "ids": [BEGIN], "tokens": ["<s>"]}
    stored["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "<s>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": begin},
    }
    file.write_text(json.dumps(stored))


CASE = Case(
    write,
    prompt="<|user|>\n{images}what is in the image ?<|end|>\n<|assistant|>\n",
    mark="<|image|>\n",
)
