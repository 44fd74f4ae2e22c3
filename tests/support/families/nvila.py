"""NVILA for tests; transformers has no class for it, only for its parts."""

import json
from pathlib import Path
from typing import Any

from support.families.case import Case
from support.families.checkpoints import HIDDEN, PATCH, SHARED, TEXT, save, write_processor
from support.families.words import END, id_of, tokenizer

TOKENS = ("<|im_start|>", "<|im_end|>", "\n", "\n\n", "system")
"""Line breaks are one token, or two that are joined, as Qwen2's tokenizer joins them."""

SIDE = 4 * PATCH
"""Of a tile: 4 x 4 patches, 6 x 6 with the zeros that fill blocks of 3 x 3."""

MERGED, FEATURES = 3, 4
MOST_TILES = 6

TEMPLATE = (
    "{% if messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful assistant<|im_end|>\n' }}{% endif %}"
    "{% for message in messages if message['content'] is not none %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""qwen2.jinja of NVlabs/VILA."""


def config(text: dict[str, Any], tower: dict[str, Any]) -> dict[str, Any]:
    """Return config.json: with the keys of the published ones, of tiles of one scale."""
    trained = "runs/train/nvila-lite/model"
    return {
        "model_type": "llava_llama",
        "architectures": ["LlavaLlamaModel"],
        "chat_template": None,
        "dynamic_s2": False,
        "hidden_size": HIDDEN,
        "image_aspect_ratio": "dynamic",
        "image_encoder": '{"_target_": "llava.model.encoders.BasicImageEncoder"}',
        "video_encoder": '{"_target_": "llava.model.encoders.TSPVideoEncoder"}',
        "llm_cfg": text | {"_name_or_path": f"{trained}/llm"},
        "vision_tower_cfg": tower
        | {"_name_or_path": f"{trained}/vision_tower", "architectures": ["SiglipVisionModel"]},
        "mm_projector_cfg": {
            "_name_or_path": f"{trained}/mm_projector",
            "mm_projector_type": "mlp_downsample_3x3_fix",
            "model_type": "v2l_projector",
        },
        "mm_hidden_size": HIDDEN,
        "mm_vision_select_feature": "cls_patch",
        "mm_vision_select_layer": -2,
        "min_tiles": 1,
        "max_tiles": MOST_TILES,
        "model_dtype": "torch.bfloat16",
        "resume_path": trained,
        "s2": False,
    }


def write(folder: Path) -> None:
    """Write a checkpoint into a folder, its tiles' features of 3 x 3 patches as NVILA-Lite's."""
    import torch  # noqa: PLC0415

    _write(folder, _projector(torch, (9 * HIDDEN, 3 * HIDDEN)))


def _projector(torch: Any, widths: tuple[int, ...]) -> dict[str, Any]:
    """Return the weights of upstream's layers: a norm and a matrix for each width, then one."""
    found, place = {}, 1
    for width, following in zip(widths, (*widths[1:], HIDDEN), strict=True):
        found[f"layers.{place}.weight"] = torch.randn(width)
        found[f"layers.{place}.bias"] = torch.randn(width)
        found[f"layers.{place + 1}.weight"] = torch.randn(following, width) * width**-0.5
        found[f"layers.{place + 1}.bias"] = torch.randn(following)
        place += 3  # GELU has a place, too
    # The last matrix has no norm before it.
    found[f"layers.{place}.weight"] = torch.randn(HIDDEN, HIDDEN) * 0.1
    found[f"layers.{place}.bias"] = torch.randn(HIDDEN)
    return found


def _write(folder: Path, projector: dict[str, Any]) -> None:
    import torch  # noqa: PLC0415
    from safetensors.torch import save_file  # noqa: PLC0415
    from transformers import (  # noqa: PLC0415
        Qwen2Config,
        Qwen2ForCausalLM,
        SiglipVisionConfig,
        SiglipVisionModel,
    )

    end = id_of("<|im_end|>", TOKENS)
    tower = SiglipVisionConfig(
        **SHARED | {"num_hidden_layers": 3},
        image_size=SIDE,
        patch_size=PATCH,
        vision_use_head=False,
    )
    seen = SiglipVisionModel(tower)
    for weight in seen.parameters():
        weight.data.add_(torch.randn_like(weight) * 0.15)
    seen.save_pretrained(folder / "vision_tower")
    text = Qwen2Config(**TEXT | {"eos_token_id": end})
    save(Qwen2ForCausalLM(text), folder / "llm")
    ends = {"eos_token_id": [end, END], "pad_token_id": TEXT["pad_token_id"]}
    (folder / "llm" / "generation_config.json").write_text(json.dumps(ends))
    (folder / "mm_projector").mkdir(exist_ok=True)
    save_file(projector, folder / "mm_projector" / "model.safetensors")
    stated = config(text.to_dict(), tower.to_dict())
    (folder / "config.json").write_text(json.dumps(stated, indent=1))
    _write_tokenizer(folder / "llm")
    write_processor(
        folder / "vision_tower",
        image_processor_type="SiglipImageProcessor",
        size={"height": SIDE, "width": SIDE},
    )


def _write_tokenizer(folder: Path) -> None:
    """Write the tokenizer's files: line breaks are text, and no token begins a text."""
    tokenizer(TOKENS).save_pretrained(folder)
    stored = json.loads((folder / "tokenizer.json").read_text())
    for token in stored["added_tokens"]:
        token["special"] = token["content"] not in TOKENS[2:]
    (folder / "tokenizer.json").write_text(json.dumps(stored))
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings |= {"bos_token": None, "eos_token": "<|im_end|>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


CASE = Case(
    write,
    prompt="<|im_start|>system\nYou are a helpful assistant<|im_end|>\n"
    "<|im_start|>user\n{images}what is in the image ?<|im_end|>\n<|im_start|>assistant\n",
    mark="<image>",
)
