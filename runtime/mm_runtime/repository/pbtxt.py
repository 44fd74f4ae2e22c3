"""PURE: configuration records -> protobuf text. Only `KEYS` knows Triton's names."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from mm_runtime.repository.records import ModelConfig

KEYS: Mapping[str, str] = {
    "name": "name",
    "backend": "backend",
    "platform": "platform",
    "max_batch_size": "max_batch_size",
    "inputs": "input",
    "outputs": "output",
    "data_type": "data_type",
    "dims": "dims",
    "optional": "optional",
    "ragged": "allow_ragged_batch",
    "reshape": "reshape",
    "shape": "shape",
    "transaction_policy": "model_transaction_policy",
    "decoupled": "decoupled",
    "dynamic_batching": "dynamic_batching",
    "preferred_batch_size": "preferred_batch_size",
    "queue_policy": "default_queue_policy",
    "max_queue_size": "max_queue_size",
    "instance_groups": "instance_group",
    "count": "count",
    "kind": "kind",
    "parameters": "parameters",
    "string_value": "string_value",
    "ensemble": "ensemble_scheduling",
    "steps": "step",
    "model_name": "model_name",
    "model_version": "model_version",
    "input_map": "input_map",
    "output_map": "output_map",
}
"""Field of a record -> key in `config.pbtxt` (inference.ModelConfig)."""

ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def render(config: ModelConfig) -> str:
    """Return the text of a `config.pbtxt`; fields that are unset or False are left out."""
    return "\n".join(_message(config, "")) + "\n"


def _message(record: Any, indent: str) -> Iterator[str]:
    for field in fields(record):
        yield from _field(KEYS[field.name], getattr(record, field.name), indent)


def _field(key: str, value: Any, indent: str) -> Iterator[str]:
    if value is None or value is False:
        return
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield f"{indent}{key} {{"
            yield from _field("key", name, indent + "  ")
            yield from _field("value", item, indent + "  ")
            yield f"{indent}}}"
    elif isinstance(value, tuple) and value and is_dataclass(value[0]):
        for item in value:
            yield from _field(key, item, indent)
    elif isinstance(value, tuple):
        # An empty list says something inside a reshape (no dimension left) and nothing elsewhere.
        if value or key == "shape":
            yield f"{indent}{key}: [{', '.join(str(item) for item in value)}]"
    elif is_dataclass(value):
        yield f"{indent}{key} {{"
        yield from _message(value, indent + "  ")
        yield f"{indent}}}"
    else:
        yield f"{indent}{key}: {_scalar(value)}"


def _scalar(value: Any) -> str:
    if value is True:
        return "true"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, str):
        return f'"{value.translate(ESCAPES)}"'
    return str(value)
