"""Checkpoints that are near a family and are served by none: why, and what would do instead."""

from collections.abc import Mapping
from typing import Final

from mm_api.vllm_classes import classes_of


def _of_vllm(kind: str) -> str:
    spans = (f"{one.first} to {one.last}" for one in classes_of(kind))
    return f"vLLM {' and '.join(spans)} ({kind})"


LOOK_ALIKES: Final[Mapping[tuple[str, ...], str]] = {
    ("blip-2",): "BLIP-2 with a language model other than OPT: no backend serves it."
    " Use blip2-opt-2.7b or blip2-opt-6.7b.",
    ("phi4_multimodal", "phi4mm"): "Phi-4-multimodal: the classes of"
    f" {_of_vllm('Phi4MMForCausalLM')} and of TensorRT-LLM run its Python code, which no backend"
    " here does; vLLM has no class of transformers' layout since 0.12. Nearest: Qwen2.5-Omni"
    " (family qwen2-5-omni) on backend VLLM.",
    ("phi3_v",): "Phi-3-vision, whose configuration and processor are Python code of its own:"
    " transformers has no class of it, that of"
    f" {_of_vllm('Phi3VForCausalLM')} reads images by that code, and no backend here runs it."
    " Nearest: Qwen2.5-VL-3B-Instruct (family qwen2-5-vl), on any backend but TensorRT.",
    ("internvl_chat",): "InternVL in OpenGVLab's own layout, with Python code of its own: its"
    " weights have other names than those of transformers' class, and no backend here runs the"
    " checkpoint's code. Use the same model in the layout of transformers' class, whose name ends"
    " in -hf: OpenGVLab/InternVL3-8B-hf.",
    ("nvila",): "NVILA with Python code of its own: no backend here runs the checkpoint's code, or"
    " serves NVILA otherwise. Nearest: LLaVA-OneVision (family llava-onevision), whose images are"
    " tiled too.",
    ("qwen2_5_omni_thinker", "qwen3_omni_moe", "qwen3_omni_moe_thinker"): "Qwen3-Omni, or a part of"
    " Qwen2.5-Omni: no backend here serves it, and TensorRT-LLM on PyTorch has no class of it."
    " Nearest: a complete Qwen2.5-Omni checkpoint (family qwen2-5-omni).",
}
"""Values of model_type -> what such checkpoints are, why no backend serves them, what would do."""
