"""Which family a config.json belongs to. `model_type` alone does not say it.

Flan-T5 and ByT5 call themselves `t5`, VILA calls itself `llava_llama`, BLIP-2 says `blip-2` for OPT
and T5 alike; so each family's record says by what its checkpoints are recognised.
"""

from difflib import get_close_matches

from mm_api.checkpoint.values import CheckpointError, JsonObject
from mm_api.documents.model_facts import InspectReason
from mm_api.families import FAMILIES
from mm_api.families.family import Family
from mm_api.families.known_classes import CLASSES, TRANSFORMERS, served_types, why_not
from mm_api.families.look_alikes import LOOK_ALIKES
from mm_api.sentences import a

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
