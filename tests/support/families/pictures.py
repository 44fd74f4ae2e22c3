"""Small random checkpoints of the families that take pictures.

Each is the real class with the real layout; only sizes are small. `write` is found by the family's
name in the API.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.families.words import BEGIN, END, PAD, SIZE, id_of, write_tokenizer

HIDDEN = 32
HEADS = 2
LAYERS = 2
SIDE = 28
PATCH = 14
SHARED: dict[str, Any] = {
    "hidden_size": HIDDEN,
    "intermediate_size": 64,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
}
TEXT: dict[str, Any] = SHARED | {
    "num_key_value_heads": 1,
    "vocab_size": SIZE,
    "max_position_embeddings": 512,
    "bos_token_id": BEGIN,
    "eos_token_id": END,
    "pad_token_id": PAD,
}
ONEVISION_TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + ' '}}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}"
    "{{ '<image>\n' }}{% endfor %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'video') %}"
    "{{ '<video>\n' }}{% endfor %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}"
    "{{ '\n' + content['text'] }}{% endfor %}{{'<|im_end|>'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""That of llava-hf's checkpoints, without its special case for answers."""

QWEN2_VL_TEMPLATE = (
    "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}"
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}"
    "<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}<|im_end|>\n"
    "{% else %}{% for content in message['content'] %}"
    "{% if content['type'] == 'image' or 'image' in content %}"
    "<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif content['type'] == 'video' or 'video' in content %}"
    "<|vision_start|><|video_pad|><|vision_end|>"
    "{% elif 'text' in content %}{{ content['text'] }}{% endif %}{% endfor %}<|im_end|>\n"
    "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""That of Qwen2-VL's checkpoints, without their numbering of pictures."""

MEAN, STD = [0.5, 0.5, 0.5], [0.5, 0.5, 0.5]


def write(family: str, folder: Path) -> Path:
    """Write a checkpoint and return its folder."""
    import torch  # noqa: PLC0415 (seconds; only tests that need a checkpoint pay them)

    torch.manual_seed(11)
    folder.mkdir(parents=True, exist_ok=True)
    WRITERS[family](folder)
    return folder


def _save(model: Any, folder: Path) -> None:
    """Make weights that matter: what starts as zero or one would hide a mistake."""
    import torch  # noqa: PLC0415

    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 1 or "gate" in name or "token" in name:
                weight.add_(torch.randn_like(weight) * 0.2)
            elif weight.ndim > 1:
                weight.copy_(torch.randn_like(weight) * 0.15)
    model.generation_config.eos_token_id = END
    model.generation_config.pad_token_id = PAD
    model.generation_config.bos_token_id = BEGIN
    model.save_pretrained(folder)


def _processor(folder: Path, **config: Any) -> None:
    values = {"do_resize": True, "do_rescale": True, "do_normalize": True, "do_convert_rgb": True}
    values |= {"rescale_factor": 1 / 255, "image_mean": MEAN, "image_std": STD, "resample": 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(values | config, indent=1))


def _blip2(folder: Path) -> None:
    from transformers import (  # noqa: PLC0415
        Blip2Config,
        Blip2ForConditionalGeneration,
        Blip2QFormerConfig,
        Blip2VisionConfig,
        OPTConfig,
    )

    tokens = ("<image>",)
    config = Blip2Config(
        vision_config=Blip2VisionConfig(**SHARED, image_size=SIDE, patch_size=PATCH).to_dict(),
        qformer_config=Blip2QFormerConfig(**SHARED, encoder_hidden_size=HIDDEN).to_dict(),
        text_config=OPTConfig(
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
    _save(Blip2ForConditionalGeneration(config), folder)
    write_tokenizer(folder, tokens)
    _processor(
        folder, image_processor_type="BlipImageProcessor", size={"height": SIDE, "width": SIDE}
    )


def _onevision(folder: Path) -> None:
    from transformers import (  # noqa: PLC0415
        LlavaOnevisionConfig,
        LlavaOnevisionForConditionalGeneration,
        Qwen2Config,
        SiglipVisionConfig,
    )

    tokens = ("<|im_start|>", "<|im_end|>", "<image>", "<video>")
    pinpoints = [[SIDE * high, SIDE * wide] for high in (1, 2, 3) for wide in (1, 2, 3)]
    tower = SiglipVisionConfig(**SHARED, image_size=SIDE, patch_size=PATCH)
    config = LlavaOnevisionConfig(
        vision_config=tower.to_dict(),
        text_config=Qwen2Config(**TEXT).to_dict(),
        image_token_index=id_of("<image>", tokens),
        video_token_index=id_of("<video>", tokens),
        image_grid_pinpoints=pinpoints,
        vision_aspect_ratio="anyres_max_4",
        tie_word_embeddings=False,
    )
    _save(LlavaOnevisionForConditionalGeneration(config), folder)
    write_tokenizer(folder, tokens)
    (folder / "chat_template.jinja").write_text(ONEVISION_TEMPLATE)
    _processor(
        folder,
        image_processor_type="LlavaOnevisionImageProcessor",
        size={"height": SIDE, "width": SIDE},
        image_grid_pinpoints=pinpoints,
        do_pad=True,
    )


def _qwen2_vl(folder: Path) -> None:
    from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration  # noqa: PLC0415

    tokens = (
        *("<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>"),
        *("<|image_pad|>", "<|video_pad|>"),
    )
    vision = {
        "depth": LAYERS,
        "embed_dim": HIDDEN,
        "num_heads": HEADS,
        "hidden_size": HIDDEN,
        "patch_size": PATCH,
        "mlp_ratio": 2,
    }
    text = TEXT | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}
    text["rope_parameters"]["mrope_section"] = [2, 3, 3]
    config = Qwen2VLConfig(
        vision_config=vision,
        text_config=text,
        image_token_id=id_of("<|image_pad|>", tokens),
        video_token_id=id_of("<|video_pad|>", tokens),
        vision_start_token_id=id_of("<|vision_start|>", tokens),
        vision_end_token_id=id_of("<|vision_end|>", tokens),
        tie_word_embeddings=False,
    )
    _save(Qwen2VLForConditionalGeneration(config), folder)
    write_tokenizer(folder, tokens)
    (folder / "chat_template.jinja").write_text(QWEN2_VL_TEMPLATE)
    _processor(
        folder,
        image_processor_type="Qwen2VLImageProcessor",
        min_pixels=4 * SIDE * SIDE,
        max_pixels=16 * SIDE * SIDE,
        patch_size=PATCH,
        temporal_patch_size=2,
        merge_size=2,
    )


def _mllama(folder: Path) -> None:
    from transformers import MllamaConfig, MllamaForConditionalGeneration  # noqa: PLC0415

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
    config = MllamaConfig(
        vision_config=vision, text_config=text, image_token_index=id_of("<|image|>", tokens)
    )
    _save(MllamaForConditionalGeneration(config), folder)
    write_tokenizer(folder, tokens)
    _processor(
        folder,
        image_processor_type="MllamaImageProcessor",
        size={"height": SIDE, "width": SIDE},
        max_image_tiles=4,
        do_pad=True,
    )


def _vila(folder: Path) -> None:
    import torch  # noqa: PLC0415
    from safetensors.torch import save_file  # noqa: PLC0415
    from transformers import (  # noqa: PLC0415
        LlamaConfig,
        LlamaForCausalLM,
        SiglipVisionConfig,
        SiglipVisionModel,
    )

    side = SIDE + PATCH  # 3 x 3 patches: an odd grid, which is padded
    tower = SiglipVisionConfig(
        **SHARED | {"num_hidden_layers": 3}, image_size=side, patch_size=PATCH
    )
    SiglipVisionModel(tower).save_pretrained(folder / "vision_tower")
    text = LlamaConfig(**TEXT)
    _save(LlamaForCausalLM(text), folder / "llm")
    projector = {
        "layers.1.weight": torch.randn(HIDDEN * 4),
        "layers.1.bias": torch.randn(HIDDEN * 4),
        "layers.2.weight": torch.randn(HIDDEN, HIDDEN * 4) * 0.1,
        "layers.2.bias": torch.randn(HIDDEN),
        "layers.4.weight": torch.randn(HIDDEN, HIDDEN) * 0.1,
        "layers.4.bias": torch.randn(HIDDEN),
    }
    (folder / "mm_projector").mkdir(exist_ok=True)
    save_file(projector, folder / "mm_projector" / "model.safetensors")
    config = {
        "model_type": "llava_llama",
        "architectures": ["LlavaLlamaModel"],
        "llm_cfg": text.to_dict(),
        "vision_tower_cfg": tower.to_dict(),
        "mm_projector_cfg": {"mm_projector_type": "mlp_downsample"},
        "mm_vision_select_layer": -2,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    write_tokenizer(folder / "llm", ("<image>",))
    _processor(
        folder / "vision_tower",
        image_processor_type="SiglipImageProcessor",
        size={"height": side, "width": side},
    )


def _llava(folder: Path) -> None:
    from transformers import (  # noqa: PLC0415
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
    )

    tokens = ("<image>",)
    tower = CLIPVisionConfig(**SHARED, image_size=SIDE, patch_size=PATCH)
    config = LlavaConfig(
        vision_config=tower.to_dict(),
        text_config=LlamaConfig(**TEXT).to_dict(),
        image_token_index=id_of("<image>", tokens),
        vision_feature_layer=-2,
    )
    _save(LlavaForConditionalGeneration(config), folder)
    write_tokenizer(folder, tokens)
    square = {"height": SIDE, "width": SIDE}
    _processor(
        folder,
        image_processor_type="CLIPImageProcessor",
        size={"shortest_edge": SIDE},
        crop_size=square,
        do_center_crop=True,
    )


WRITERS: dict[str, Callable[[Path], None]] = {
    "llava": _llava,
    "blip2-opt": _blip2,
    "llava-onevision": _onevision,
    "qwen2-vl": _qwen2_vl,
    "mllama": _mllama,
    "vila": _vila,
}
