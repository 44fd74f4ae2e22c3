"""Which family a config.json belongs to. `model_type` alone does not say it.

Flan-T5 and ByT5 call themselves `t5`, VILA calls itself `llava_llama`, BLIP-2 says `blip-2` for OPT
and T5 alike; so a family is found by an ordered table of tests, first hit wins.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mm_api.checkpoint.values import CheckpointError, JsonObject
from mm_api.documents.model_facts import InspectReason

KNOWN_FAMILIES = (
    "blip2-opt",
    "blip2-t5",
    "llava",
    "vila",
    "llava-onevision",
    "mllama",
    "qwen2-vl",
    "t5",
    "flan-t5",
    "mt5",
    "byt5",
    "bart",
    "mbart",
    "nmt",
    "whisper",
)
"""Every family that has a name in the API, in the order of the design."""


@dataclass(frozen=True, slots=True)
class _Rule:
    family: str
    matches: Callable[[JsonObject], bool]


def _type_is(*names: str) -> Callable[[JsonObject], bool]:
    return lambda config: config.get("model_type") in names


def _is_blip2(text_type: str) -> Callable[[JsonObject], bool]:
    def matches(config: JsonObject) -> bool:
        text = config.get("text_config")
        found = text.get("model_type", "opt") if isinstance(text, dict) else "opt"
        return config.get("model_type") == "blip-2" and found == text_type

    return matches


def _is_vila(config: JsonObject) -> bool:
    return "llm_cfg" in config and "vision_tower_cfg" in config


def _is_fairseq(config: JsonObject) -> bool:
    # The args namespace of a FairSeq checkpoint, which has no config.json.
    # In transformers' layout it is FSMT.
    return config.get("model_type") == "fsmt" or (
        "encoder_embed_dim" in config and str(config.get("arch", "")).startswith("transformer")
    )


def _is_byt5(config: JsonObject) -> bool:
    return config.get("model_type") == "t5" and config.get("tokenizer_class") == "ByT5Tokenizer"


def _is_flan_t5(config: JsonObject) -> bool:
    # The two differ in the gate of the feed-forward layer; T5 1.1 shares it and is served alike.
    return config.get("model_type") == "t5" and "gated" in str(config.get("feed_forward_proj"))


_RULES = (
    _Rule("vila", _is_vila),
    _Rule("nmt", _is_fairseq),
    _Rule("llava", _type_is("llava")),
    _Rule("blip2-opt", _is_blip2("opt")),
    _Rule("blip2-t5", _is_blip2("t5")),
    _Rule("llava-onevision", _type_is("llava_onevision")),
    _Rule("mllama", _type_is("mllama")),
    _Rule("qwen2-vl", _type_is("qwen2_vl")),
    _Rule("byt5", _is_byt5),
    _Rule("flan-t5", _is_flan_t5),
    _Rule("t5", _type_is("t5")),
    _Rule("mt5", _type_is("mt5")),
    _Rule("bart", _type_is("bart")),
    _Rule("mbart", _type_is("mbart")),
    _Rule("whisper", _type_is("whisper")),
)


def detect(config: JsonObject) -> str | None:
    """Return the family of a config.json, or None when no rule knows it."""
    return next((rule.family for rule in _RULES if rule.matches(config)), None)


def _refuse_look_alikes(config: JsonObject) -> None:
    """Refuse what resembles a known family, with the reason why it is none.

    Raises:
        CheckpointError: BLIP-2 with another language model than OPT or T5.
    """
    if config.get("model_type") == "blip-2":
        raise CheckpointError(
            InspectReason.UNKNOWN_FAMILY,
            "config.json is BLIP-2 with a language model other than OPT and T5, which nobody"
            " builds. Use blip2-opt-2.7b or blip2-opt-6.7b.",
        )


def resolve(config: JsonObject, asked: str | None) -> str:
    """Return the family to use: what config.json says, which must be what the user asked for.

    Raises:
        CheckpointError: `UnknownFamily` or `FamilyMismatch`.
    """
    known = ", ".join(KNOWN_FAMILIES)
    if asked is not None and asked not in KNOWN_FAMILIES:
        raise CheckpointError(
            InspectReason.UNKNOWN_FAMILY,
            f"spec.model.family {asked!r} is not known. Known families: {known}.",
        )
    found = detect(config)
    if found is None:
        _refuse_look_alikes(config)
        raise CheckpointError(
            InspectReason.UNKNOWN_FAMILY,
            f"config.json says model_type {config.get('model_type')!r} and architectures"
            f" {config.get('architectures')!r}: no known family. Known families: {known}.",
        )
    if asked not in {None, found}:
        raise CheckpointError(
            InspectReason.FAMILY_MISMATCH,
            f"spec.model.family is {asked!r}, and config.json is a {found} checkpoint: remove"
            " spec.model.family or correct it.",
        )
    return found
