"""Classes of transformers from image and text to text, and which of them run here.

`known_classes.json` is written by `tools/generate_known_classes.py` of the pinned version.
"""

import json
from importlib.resources import files

from mm_api.checkpoint.values import JsonObject

_DATA = json.loads((files("mm_api.families") / "known_classes.json").read_text(encoding="utf-8"))
TRANSFORMERS: str = _DATA["transformers"]
"""Version that the classes are of."""

CLASSES: dict[str, JsonObject] = _DATA["classes"]
"""model_type -> class, processor, placeholder, defaults of both configurations."""


def why_not(config: JsonObject) -> str | None:
    """Return why a checkpoint of a class that transformers knows is not served; None: it is."""
    known = CLASSES[str(config["model_type"])]
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
    """Return the model_type of every class that is served."""
    return [kind for kind in CLASSES if why_not({"model_type": kind}) is None]
