"""Configurations of checkpoints that are several, each in a folder of its own (VILA 1.5, NVILA)."""

from collections.abc import Callable

from mm_api.checkpoint.values import JsonObject

SECTIONS = {"llm_cfg": "llm", "vision_tower_cfg": "vision_tower"}
"""Section of config.json -> folder, whose own config.json is what loaders read."""

PROCESSOR = "preprocessor_config.json"

_PATH = "_name_or_path"


def with_parts(config: JsonObject, read: Callable[[str], JsonObject]) -> JsonObject:
    """Return a configuration whose sections say what the parts' own files say.

    Args:
        config: of the checkpoint.
        read: returns a JSON file by its name in the checkpoint, empty where there is none.
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
    """Return the configuration of the image processor; empty where there is none."""
    return read(PROCESSOR) or read(f"{SECTIONS['vision_tower_cfg']}/{PROCESSOR}")
