"""Classes of transformers from image and text to text, and which of them run here.

`known_classes.json` is written by `tools/generate_known_classes.py` of the pinned version.
`compared_classes.json` names those whose answers tests compare with transformers', token for token:
only these are served. A class is added with its checkpoint in `tests/support/families/`.
"""

import json
from importlib.resources import files

from mm_api.checkpoint.values import JsonObject

_FOLDER = files("mm_api.families")
_DATA = json.loads((_FOLDER / "known_classes.json").read_text(encoding="utf-8"))
_TRIED = json.loads((_FOLDER / "compared_classes.json").read_text(encoding="utf-8"))
TRANSFORMERS: str = _DATA["transformers"]
"""Version that the classes are of."""

CLASSES: dict[str, JsonObject] = _DATA["classes"]
"""model_type -> class, processor, placeholder, defaults of both configurations."""

COMPARED: tuple[str, ...] = tuple(_TRIED["compared"])
"""model_type of classes whose answers were compared."""

COMPARED_WITH: str = _TRIED["transformers"]
"""Version that they were compared with."""


def why_not(config: JsonObject) -> str | None:
    """Return why a checkpoint of a class that transformers knows is not served; None: it is."""
    kind = str(config["model_type"])
    if (why := _unfit(CLASSES[kind])) is not None:
        return why
    if kind in _TRIED["refused"]:
        return str(_TRIED["refused"][kind])
    if kind not in COMPARED:
        return "its answers are not compared with transformers' in this version"
    return None


def _unfit(known: JsonObject) -> str | None:
    """Return what a class has or lacks that keeps any checkpoint of it from being served."""
    if "processor" not in known:
        return f"transformers {TRANSFORMERS} has no processor for it"
    if "lacks" in known:
        packages = " and ".join(known["lacks"])
        return f"its {known['processor']} needs {packages}, which the runtime does not have"
    if "imageless" in known:
        return f"its {known['processor']} reads no images"
    if "encoderDecoder" in known:
        return "it is an encoder-decoder, and `generic` serves decoders"
    if "ownGenerate" in known:
        return "its answers are made by a `generate` of its own"
    return None


def served_types() -> list[str]:
    return [kind for kind in CLASSES if why_not({"model_type": kind}) is None]
