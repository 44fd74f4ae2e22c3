"""VILA 1.5 for tests; transformers has no class for it."""

import json
from pathlib import Path

from support.families.case import Case
from support.families.checkpoints import HIDDEN, PATCH, SHARED, SIDE, TEXT, save, t, write_processor
from support.families.words import write_tokenizer


def write(folder: Path) -> None:
    import torch  # noqa: PLC0415
    from safetensors.torch import save_file  # noqa: PLC0415

    side = SIDE + PATCH  # 3 x 3 patches: an odd grid, which is padded
    tower = t.SiglipVisionConfig(
        **SHARED | {"num_hidden_layers": 3}, image_size=side, patch_size=PATCH
    )
    t.SiglipVisionModel(tower).save_pretrained(folder / "vision_tower")
    text = t.LlamaConfig(**TEXT)
    save(t.LlamaForCausalLM(text), folder / "llm")
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
    write_processor(
        folder / "vision_tower",
        image_processor_type="SiglipImageProcessor",
        size={"height": side, "width": side},
    )


CASE = Case(
    write,
    prompt="A chat between a curious user and an artificial intelligence assistant. The assistant "
    "gives helpful, detailed, and polite answers to the user's questions. USER: "
    "{images}what is in the image ? ASSISTANT:",
    mark="<image>\n",
)
