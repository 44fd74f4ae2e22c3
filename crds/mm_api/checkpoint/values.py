"""Values of a configuration file (a wrong one is a refusal), and what they say of a model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from mm_api.documents.model_facts import (
    AudioFacts,
    EncoderFacts,
    InspectReason,
    TextFacts,
    VisionFacts,
)
from mm_api.sentences import a

JsonObject: TypeAlias = dict[str, Any]

LARGEST = 2**31 - 1
"""Sizes above this are no sizes: Triton's shapes and TensorRT-LLM's limits are 32-bit."""


# Not frozen: Python writes __traceback__ into an exception on its way up.
@dataclass(unsafe_hash=True)
class CheckpointError(Exception):
    """The checkpoint cannot be served: what is wrong, what was expected, what to do."""

    reason: InspectReason
    message: str

    def __str__(self) -> str:
        return self.message


def invalid(message: str) -> CheckpointError:
    return CheckpointError(InspectReason.CONFIG_INVALID, message)


def section(config: JsonObject, key: str) -> JsonObject | None:
    """Return an object inside a configuration; None: not there. CheckpointError: no object."""
    value = config.get(key)
    if value is None or isinstance(value, dict):
        return value
    raise invalid(f"{key} is {a(type(value).__name__)}; expected an object")


_FINITE = frozenset({"image_mean", "image_std", "norm_eps", "rescale_factor", "rms_norm_eps"})
_FINITE |= {"layer_norm_eps", "layer_norm_epsilon", "rope_theta"}
_COLOURS = 3


def check_numbers(file: str, stated: JsonObject, place: str = "") -> None:
    """Refuse (CheckpointError) numbers that would make every answer NaN, or other colours."""
    for key, value in stated.items():
        if isinstance(value, dict):
            check_numbers(file, value, f"{place}{key}.")
        if key not in _FINITE or value is None:
            continue
        several = key.startswith("image_")
        found = value if several and isinstance(value, list) else [value] * _COLOURS
        least = -LARGEST if key == "image_mean" else 0
        if len(found) != _COLOURS or not all(
            type(one) in {int, float} and least < one < LARGEST for one in found
        ):
            expected = "three numbers" if several else "a number"
            above = "" if least else " above 0"
            raise invalid(f"{file} {place}{key} is {value!r}; expected {expected}{above}")


def stated_dtype(config: JsonObject) -> str | None:
    """Return the type of the weights that a configuration states, None where it does not.

    transformers 5 writes `dtype`, earlier versions `torch_dtype`; some checkpoints have it beside
    the language model's sizes only.
    """
    text = config.get("text_config")
    for part in (config, text if isinstance(text, dict) else {}):
        value = part.get("dtype") or part.get("torch_dtype") or part.get("model_dtype")
        if value:
            return str(value).removeprefix("torch.")
    return None


@dataclass(frozen=True, slots=True)
class Sizes:
    """Whole numbers of one section, with the defaults that missing keys stand for."""

    values: Mapping[str, Any]
    defaults: Mapping[str, int]
    where: str = ""

    def __call__(self, key: str, default: int | None = None, *, smallest: int = 1) -> int:
        """Return one number; `default` wins over the table's. CheckpointError: none, or wrong."""
        value: object = self.values.get(key)
        name = f"{self.where}.{key}" if self.where else key
        if value is None:
            value = self.defaults.get(key) if default is None else default
            if value is None:
                raise invalid(
                    f"{name} is missing, and text models of the type"
                    f" {self.values.get('model_type')!r} have no default here"
                )
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        if not is_integer or not smallest <= value <= LARGEST:  # type: ignore[operator]
            raise invalid(f"{name} is {value!r}; expected a whole number from {smallest}")
        return int(value)  # type: ignore[call-overload,no-any-return]

    def heads(self, hidden_key: str, heads_key: str) -> tuple[int, int, int]:
        """Return hidden size, heads, head size; CheckpointError: the first is no multiple."""
        hidden, heads = self(hidden_key), self(heads_key)
        stated = self.defaults.get("head_dim")
        if self.values.get("head_dim") is None and stated is None and hidden % heads:
            name = f"{self.where}.{hidden_key}" if self.where else hidden_key
            raise invalid(f"{name} {hidden} is not a multiple of {heads_key} {heads}")
        return hidden, heads, self("head_dim", stated or max(1, hidden // heads))


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The parts that a model has, and their sizes."""

    text: TextFacts
    vision: VisionFacts | None = None
    encoder: EncoderFacts | None = None
    audio: AudioFacts | None = None
    image_token_id: int | None = None
