"""Configurations of checkpoints that are in several files: parts in folders (VILA), processors."""

from collections.abc import Callable
from typing import Any

from mm_api.checkpoint.values import JsonObject, invalid, section

SECTIONS = {"llm_cfg": "llm", "vision_tower_cfg": "vision_tower"}
"""Section of config.json -> folder, whose own config.json is what loaders read."""

PROCESSOR = "preprocessor_config.json"
JOINED = "processor_config.json"
"""What transformers 5 writes in its place: a section for each part of a processor."""

_PATH = "_name_or_path"


def with_parts(config: JsonObject, read: Callable[[str], JsonObject]) -> JsonObject:
    """Return a configuration whose sections say what the parts' own files say.

    `read`: returns a JSON file by its name in the checkpoint, empty where there is none.
    """
    found = dict(config)
    for key, folder in SECTIONS.items():
        stated = config.get(key)
        if not isinstance(stated, dict):
            continue
        if own := read(f"{folder}/config.json"):
            # Where the part lies stands in config.json only.
            kept = {_PATH: stated[_PATH]} if _PATH in stated else {}
            found[key] = {**stated, **own, **kept}
    return found


def processor_of(read: Callable[[str], JsonObject]) -> JsonObject:
    """Return the configuration of image processor and feature extractor; empty: there is none.

    transformers reads the sections of `processor_config.json` before `preprocessor_config.json`,
    and versions before 5 read the second alone: a CheckpointError where they differ.
    """
    joined, own = read(JOINED), read(PROCESSOR)
    audio, images = (section(joined, one) or {} for one in ("feature_extractor", "image_processor"))
    nested = audio | images
    if not nested:
        return own or read(f"{SECTIONS['vision_tower_cfg']}/{PROCESSOR}")
    both = sorted((own.keys() & nested.keys()) - _NAMES)
    stated = [key for key in both if own[key] is not None and nested[key] is not None]
    if unlike := [key for key in stated if _meaning(own[key]) != _meaning(nested[key])]:
        key = unlike[0]
        raise invalid(
            f"{PROCESSOR} and {JOINED} differ in {', '.join(unlike)}: {key} is {own[key]!r} in the"
            f" first and {nested[key]!r} in the second. Keep the file that was published with the"
            " weights and remove the other"
        )
    return nested


def _meaning(value: Any) -> Any:
    if isinstance(value, dict):
        return {one for one in value.values() if isinstance(one, int)}
    return {value} if isinstance(value, int) and not isinstance(value, bool) else value


_NAMES = frozenset({"image_processor_type", "feature_extractor_type", "processor_class"})
"""Names of classes, which differ by version (`Fast`) and cut images alike."""
