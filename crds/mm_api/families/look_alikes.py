"""Checkpoints that are near a family and are served by none: why, and what would do instead."""

from dataclasses import dataclass

from mm_api.checkpoint.values import JsonObject


@dataclass(frozen=True, slots=True)
class LookAlike:
    """Checkpoints of some model_type that no backend here serves."""

    model_types: tuple[str, ...]
    title: str
    why: str
    instead: str

    @property
    def message(self) -> str:
        """Return the sentences of the refusal."""
        return f"config.json is {self.title}: {self.why}. {self.instead}."


LOOK_ALIKES = (
    LookAlike(
        ("blip-2",),
        "BLIP-2 with a language model other than OPT and T5",
        "no backend builds it",
        "Use blip2-opt-2.7b or blip2-opt-6.7b",
    ),
    # `phi4mm` is the published model, with Python code of its own (TensorRT-LLM's
    # Phi4MMForCausalLM, tensorrt_llm/_torch/models/modeling_phi4mm.py, imports its processor);
    # `phi4_multimodal` the same for transformers' class. Both keep two LoRA adapters beside the
    # base model (vision-lora, speech-lora), without which its answers are another model's.
    LookAlike(
        ("phi4mm", "phi4_multimodal"),
        "Phi-4-multimodal",
        "it answers with the LoRA adapters of its folders vision-lora and speech-lora, chosen by"
        " what a request holds, and TensorRT-LLM's class runs Python code of the checkpoint; no"
        " backend here does either",
        "Nearest: Qwen2.5-VL (family qwen2-5-vl) for images, Qwen2-Audio (family qwen2-audio) for"
        " recordings",
    ),
    LookAlike(
        ("nvila",),
        "NVILA",
        "transformers has no class of it, its code is the checkpoint's own, and its tiling gives"
        " each image another number of features",
        "Nearest: VILA1.5 (family vila), or LLaVA-OneVision (family llava-onevision), whose images"
        " are tiled too",
    ),
    LookAlike(
        ("qwen2_5_omni_thinker", "qwen3_omni_moe", "qwen3_omni_moe_thinker"),
        "Qwen3-Omni, or a part of Qwen2.5-Omni",
        "no backend here serves it, and TensorRT-LLM on PyTorch has no class of it",
        "Nearest: a complete Qwen2.5-Omni checkpoint (family qwen2-5-omni)",
    ),
)


def look_alike(config: JsonObject) -> LookAlike | None:
    """Return what a config.json of no family is near to, where that is known."""
    kind = config.get("model_type")
    return next((one for one in LOOK_ALIKES if kind in one.model_types), None)
