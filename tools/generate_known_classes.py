"""Write crds/mm_api/families/known_classes.json: transformers' classes from image and text.

The operator has no transformers; it plans checkpoints of these classes by the defaults of their
configurations. Without transformers `--check` has nothing to compare with and passes.
"""

import argparse
import importlib.util
import inspect
import json
import logging
import re
import sys
from pathlib import Path
from typing import Any

PATH = Path(__file__).parents[1] / "crds" / "mm_api" / "families" / "known_classes.json"

TEXT = {
    "hidden_size": ("hidden_size", "d_model"),
    "intermediate_size": ("intermediate_size",),
    "num_hidden_layers": ("num_hidden_layers",),
    "num_attention_heads": ("num_attention_heads",),
    "num_key_value_heads": ("num_key_value_heads",),
    "head_dim": ("head_dim",),
    "vocab_size": ("vocab_size",),
    "max_position_embeddings": ("max_position_embeddings",),
}
VISION = {
    "hidden_size": ("hidden_size", "embed_dim"),
    "num_hidden_layers": ("num_hidden_layers", "depth"),
    "num_attention_heads": ("num_attention_heads", "num_heads"),
    "image_size": ("image_size",),
    "patch_size": ("patch_size",),
}
"""Our key -> those of configurations, the first that is there."""

_DEFAULT = (
    r"self\.image_token\s*=\s*(?:\(\s*"
    r'|getattr\(tokenizer, "image_token", '
    r'|tokenizer\.image_token if hasattr\(tokenizer, "image_token"\) else )?"([^"]+)"'
)
"""Where a processor sets it itself, or where its tokenizer has none."""


def numbers(config: Any, keys: dict[str, tuple[str, ...]]) -> dict[str, int]:
    """Return the defaults of a configuration that are integers."""
    found = {}
    for name, spellings in keys.items():
        value = next(filter(None, (of(config, spelling) for spelling in spellings)), None)
        if isinstance(value, (list, tuple)) and len(set(value)) == 1:
            value = value[0]
        if type(value) is int and value > 0:
            found[name] = value
    return found


def of(config: Any, name: str) -> Any:
    """Return a value of a configuration; None: it has none, or another one for each layer."""
    try:
        return getattr(config, name, None)
    except (AttributeError, RuntimeError, ValueError):
        return None


def placeholder(processor: Any) -> str | None:
    """Return what stands for an image in prompts where a checkpoint's files do not say it."""
    value = inspect.signature(processor.__init__).parameters.get("image_token")
    if value is not None and isinstance(value.default, str):
        return value.default
    source = inspect.getsource(processor.__init__)
    named = re.search(_DEFAULT, source)
    return named[1] if named else None


def described(kind: str, name: str) -> dict[str, Any]:
    """Return what is known of a class."""
    import transformers  # noqa: PLC0415 (as in `main`)
    from transformers.generation.utils import GenerationMixin  # noqa: PLC0415
    from transformers.models.auto import processing_auto  # noqa: PLC0415

    model = getattr(transformers, name)
    config = model.config_class()
    text = config.get_text_config(decoder=True)
    processors: Any = vars(processing_auto)["PROCESSOR_MAPPING_NAMES"]
    processor = processors.get(kind)
    loaded = getattr(transformers, processor) if processor else None
    # Those that transformers cannot import have no attributes either.
    missing = sorted(getattr(loaded, "_backends", None) or ())
    parts = () if missing or loaded is None else loaded.get_attributes()
    found = {
        "class": name,
        "processor": processor,
        "placeholder": placeholder(loaded) if loaded and not missing else None,
        "lacks": missing or None,
        "imageless": bool(parts) and "image_processor" not in parts,
        "encoderDecoder": bool(config.is_encoder_decoder),
        "ownGenerate": getattr(model, "generate", None) is not GenerationMixin.generate,
        "textType": text.model_type if text is not config else None,
        "text": numbers(text, TEXT),
        "vision": numbers(getattr(config, "vision_config", None), VISION),
    }
    return {key: value for key, value in found.items() if value not in (None, False, {})}


def content() -> str:
    """Return the file."""
    import transformers  # noqa: PLC0415 (seconds, and it may not be there)
    from transformers.models.auto.modeling_auto import (  # noqa: PLC0415
        MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    )

    logging.disable(logging.CRITICAL)
    classes = {}
    for kind, name in sorted(MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.items()):
        classes[kind] = described(kind, name)
    document = {"transformers": transformers.__version__, "classes": classes}
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def main() -> int:
    """Write the file, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail when the file is another one")
    arguments = parser.parse_args()
    if importlib.util.find_spec("transformers") is None:
        return 0
    wanted = content()
    if not arguments.check:
        PATH.write_text(wanted, encoding="utf-8")
        return 0
    if PATH.is_file() and PATH.read_text(encoding="utf-8") == wanted:
        return 0
    sys.stderr.write(f"{PATH} is not what transformers says: make generate\n")
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
