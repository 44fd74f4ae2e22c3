"""Which family a config.json belongs to. `model_type` alone does not say it.

Flan-T5 and ByT5 call themselves `t5`, VILA calls itself `llava_llama`, BLIP-2 says `blip-2` for OPT
and T5 alike; so each family's record says by what its checkpoints are recognised.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from mm_api.checkpoint.values import CheckpointError, JsonObject
from mm_api.documents.model_facts import InspectReason
from mm_api.families import FAMILIES
from mm_api.families.family import Family
from mm_api.families.known_classes import CLASSES, TRANSFORMERS, served_types, why_not
from mm_api.sentences import a
from mm_api.vllm_classes import classes_of

_ALIKE = 0.7
"""Ratio of difflib: from here on a name is likelier a relative than a coincidence."""

_BY_LAYOUT = [one for one in FAMILIES.values() if one.model_type is None and one.has_tower]
_BY_CLASS = [one for one in FAMILIES.values() if one.model_type is None and not one.has_tower]
"""Any class that transformers knows, after every family that is known better."""

_BY_TYPE = [family for family in FAMILIES.values() if family.model_type is not None]


def matches(family: Family, config: JsonObject) -> bool:
    typed = family.model_type is None or config.get("model_type") == family.model_type
    if not typed or not family.recognised(config):
        return False
    better = () if family not in _BY_CLASS else (*_BY_LAYOUT, *_BY_TYPE)
    return not any(matches(one, config) for one in better)


def detect(config: JsonObject) -> str | None:
    """Return the family of a config.json, or None when no rule knows it."""
    ordered = (*_BY_LAYOUT, *_BY_TYPE, *_BY_CLASS)
    return next((one.name for one in ordered if matches(one, config)), None)


def _refuse_look_alikes(config: JsonObject) -> None:
    for kinds, text in LOOK_ALIKES.items():
        if config.get("model_type") in kinds:
            raise CheckpointError(InspectReason.UNKNOWN_FAMILY, f"config.json is {text}")


def _refuse_class(config: JsonObject) -> None:
    """Refuse a class of transformers that does not run here, with the reason."""
    if (why := why_not(config)) is None:
        return
    kind = config["model_type"]
    raise CheckpointError(
        InspectReason.UNKNOWN_FAMILY,
        f"config.json is {a(CLASSES[kind]['class'])} (model_type {kind!r}), which is none of the"
        f" known families, and as `generic` it is not served: {why}.{_nearest(config)}"
        " docs/reference/families.md lists the classes that are."
        f" Known families: {', '.join(FAMILIES)}.",
    )


def _nearest(config: JsonObject) -> str:
    """Return a sentence with the served model_type that is spelled most alike, or nothing."""
    known = {one.model_type for one in _BY_TYPE if one.model_type and one.backends}
    near = get_close_matches(
        str(config.get("model_type")), sorted(known | {*served_types()}), n=1, cutoff=_ALIKE
    )
    return f" The nearest that is served: model_type {near[0]!r}." if near else ""


def resolve(config: JsonObject, requested: str | None) -> str:
    """Return the family of config.json, which must be the requested one, or a CheckpointError."""
    known = ", ".join(FAMILIES)
    if requested is not None and requested not in FAMILIES:
        raise CheckpointError(
            InspectReason.UNKNOWN_FAMILY,
            f"spec.model.family {requested!r} is not known. Known families: {known}.",
        )
    found = detect(config)
    if found is not None and FAMILIES[found] in _BY_CLASS:
        _refuse_look_alikes(config)
        _refuse_class(config)
    if found is None:
        _refuse_look_alikes(config)
        raise CheckpointError(
            InspectReason.UNKNOWN_FAMILY,
            f"config.json says model_type {config.get('model_type')!r} and architectures"
            f" {config.get('architectures')!r}: no known family, and no class from"
            " image and text to text of transformers"
            f" {TRANSFORMERS}.{_nearest(config)} Known families: {known}.",
        )
    if requested not in {None, found}:
        raise CheckpointError(
            InspectReason.FAMILY_MISMATCH,
            f"spec.model.family is {requested!r}, and config.json is {a(found)} checkpoint: remove"
            " spec.model.family or correct it.",
        )
    return found


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
