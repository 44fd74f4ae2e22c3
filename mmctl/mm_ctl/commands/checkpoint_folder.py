"""Facts of a checkpoint's folder, for planning without a cluster: only small files are read.

A folder with the configuration files alone is enough. The number of weights then comes from the
index, or from the dimensions where there is no index.
"""

import hashlib
import json
import math
import struct
from pathlib import Path
from typing import Any

from mm_api.checkpoint import CheckpointError, Dimensions
from mm_api.checkpoint.parts import JOINED, PROCESSOR, processor_of, with_parts
from mm_api.checkpoint.quantized import check_unquantized, counted, stored_quantization
from mm_api.checkpoint.values import stated_dtype
from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.quantization import HF_QUANT_CONFIG
from mm_api.dtypes import DTYPE_BYTES
from mm_api.families import FAMILIES
from mm_api.families.detection import resolve
from mm_api.families.layouts import TOKENIZER_FILES
from mm_api.families.processor_files import check_processor
from mm_ctl.documents import UsageError, read_text
from mm_operator.plan.engine.weights import text_parameters

CONFIGS = ("config.json", "args.json")
"""FairSeq has no config.json: its args namespace, saved as JSON, stands for it."""

INDEX = "model.safetensors.index.json"
_STORED_BYTES = {"float64": 8, **DTYPE_BYTES}
"""Of one number, by the type that a checkpoint is stored in."""


def facts_of_folder(folder: Path, family: str | None) -> ModelFacts:
    """Return the facts of a checkpoint.

    Raises:
        UsageError: no configuration there, or a checkpoint that is refused; says why.
    """
    name = next((name for name in CONFIGS if (folder / name).is_file()), None)
    if name is None:
        raise UsageError(f"{folder} holds neither {' nor '.join(CONFIGS)}: give the folder of one")
    try:
        config = with_parts(_json(folder / name), lambda part: _json(folder / part))
        found = resolve(config, family)
        preprocessor = processor_of(lambda part: _json(folder / part))
        layout = FAMILIES[found].layout_of(config)
        tokenizers = {name: _json(folder / name) for name in TOKENIZER_FILES if layout}
        dimensions = FAMILIES[found].dimensions(config, preprocessor, tokenizers)
        if layout is None:
            check_processor(FAMILIES[found], dimensions.vision, preprocessor)
    except CheckpointError as error:
        raise UsageError(f"{folder}: {error}") from error
    dtype = stated_dtype(config) or ""
    dtype = dtype if dtype in _STORED_BYTES else "float32"
    facts = ModelFacts(
        family=found,
        architecture=_architecture(config),
        dtype=dtype,
        source_digest=_digest(folder, name),
        weight_format="pickle" if FAMILIES[found].published_pickled else "safetensors",
        weight_bytes=1,
        parameters=1,
        custom_code=layout is None and bool(config.get("auto_map")),
        image_token_id=dimensions.image_token_id,
        text=dimensions.text,
        vision=dimensions.vision,
        encoder=dimensions.encoder,
        audio=dimensions.audio,
    )
    own = _own_adapters(folder, facts)
    try:
        stored = _quantized(folder, config)
    except CheckpointError as error:
        raise UsageError(f"{folder}: {error}") from error
    if stored is not None:
        return facts.model_copy(update={**stored, "own_adapter_parameters": own})
    parameters = _counted(folder, dtype) or _computed(folder, facts, dimensions)
    return facts.model_copy(
        update={
            "parameters": parameters,
            "weight_bytes": parameters * _STORED_BYTES[dtype],
            "own_adapter_parameters": own,
        }
    )


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = json.loads(read_text(str(path)))
    except ValueError as error:
        raise UsageError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageError(f"{path} holds a {type(value).__name__}; expected a JSON object")
    return value


def _architecture(config: dict[str, Any]) -> str:
    names = config.get("architectures")
    return str(names[0]) if isinstance(names, list) and names else str(config.get("arch", ""))


def _digest(folder: Path, name: str) -> str:
    """Return a digest of the configuration: the inspect Job's covers the weights too."""
    total = hashlib.sha256()
    joined = [JOINED] if (folder / JOINED).is_file() else []
    for part in (name, PROCESSOR, *joined, INDEX):
        path = folder / part
        total.update(f"{part}\0".encode() + (path.read_bytes() if path.is_file() else b""))
    return f"sha256:{total.hexdigest()}"


def _quantized(folder: Path, config: dict[str, Any]) -> dict[str, Any] | None:
    """Return the facts of weights that Model-Optimizer quantized; None: it did not."""
    if not (folder / HF_QUANT_CONFIG).is_file():
        check_unquantized(config)
        return None
    shards = sorted(folder.glob("*.safetensors"))
    if not shards:
        raise UsageError(
            f"{folder} has {HF_QUANT_CONFIG} and no *.safetensors: which matrices are quantized is "
            "known from their headers only; add them"
        )
    found = counted({name: one for path in shards for name, one in _header(path).items()})
    return {
        "quantization": stored_quantization(_json(folder / HF_QUANT_CONFIG), found),
        "parameters": found.parameters,
        "weight_bytes": sum(path.stat().st_size for path in shards),
    }


def _counted(folder: Path, dtype: str) -> int | None:
    """Return the number of weights from headers or the index, None when there is neither."""
    shards = sorted(folder.glob("*.safetensors"))
    if shards:
        return sum(_elements(path) for path in shards)
    metadata = _json(folder / INDEX).get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    return int(total) // _STORED_BYTES[dtype] if total else None


def _elements(path: Path) -> int:
    return sum(math.prod(entry["shape"]) for entry in _header(path).values())


def _header(path: Path) -> dict[str, dict[str, Any]]:
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        return {
            name: {"dtype": entry.get("dtype"), "shape": [int(one) for one in entry["shape"]]}
            for name, entry in header.items()
        }
    except (OSError, ValueError, KeyError, TypeError, struct.error, MemoryError) as error:
        raise UsageError(f"{path} is not a safetensors file: {error}") from error


def _own_adapters(folder: Path, facts: ModelFacts) -> int | None:
    """Return the numbers of the LoRA adapters that a checkpoint brings along; None: of none."""
    own = FAMILIES[facts.family].own_adapters
    if own is None:
        return None
    total = 0
    for name in own.folders:
        rank = _json(folder / name / "adapter_config.json").get("r")
        if type(rank) is not int or rank < 1:
            raise UsageError(
                f"{folder / name}/adapter_config.json names no rank (r): add it, the family's "
                "checkpoints bring that adapter along"
            )
        total += own.parameters(facts.text, rank)
    return total


def _computed(folder: Path, facts: ModelFacts, dimensions: Dimensions) -> int:
    """Return the number of weights that the dimensions make."""
    family = FAMILIES[facts.family]
    total = text_parameters(facts, family)
    if dimensions.vision is None and dimensions.audio is None:
        return total
    if family.vision_parameters is None or dimensions.vision is None:
        raise UsageError(
            f"{folder} has neither weights nor {INDEX}, and the tower of {family.name} "
            f"cannot be counted from its configuration: add {INDEX}"
        )
    return total + family.vision_parameters(dimensions.vision, dimensions.text)
