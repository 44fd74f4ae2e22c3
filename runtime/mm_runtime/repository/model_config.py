"""PURE: parts of a `config.pbtxt` as messages of Triton's own schema, and their text."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from google.protobuf import text_format  # type: ignore[import-untyped]  # no stubs

from mm_runtime.repository.schema import SCHEMA

# Generated when the schema is loaded, so that mypy cannot know them.
ModelConfig: TypeAlias = Any
DynamicBatching: TypeAlias = Any
Input: TypeAlias = Any
Output: TypeAlias = Any
Parameter: TypeAlias = Any


class DataType(Enum):
    """Triton's element types."""

    BOOL = "TYPE_BOOL"
    UINT8 = "TYPE_UINT8"
    UINT64 = "TYPE_UINT64"
    INT32 = "TYPE_INT32"
    INT64 = "TYPE_INT64"
    FP16 = "TYPE_FP16"
    BF16 = "TYPE_BF16"
    FP32 = "TYPE_FP32"
    STRING = "TYPE_STRING"


@dataclass(frozen=True, slots=True)
class EnsembleStep:
    """One model of the ensemble: its tensor name -> the ensemble's tensor name."""

    model_name: str
    input_map: Mapping[str, str]
    output_map: Mapping[str, str]


def tensor(name: str, data_type: DataType, *dims: int, ragged: bool = False) -> Input:
    """Return an input that every request has; `dims` without the batch dimension, -1: any length.

    Ragged: requests of different lengths may still be given to the model together.
    """
    return SCHEMA.ModelInput(
        name=name, data_type=data_type.value, dims=dims, allow_ragged_batch=ragged
    )


def optional(name: str, data_type: DataType, *dims: int, ragged: bool = False) -> Input:
    """Return an input that a request may leave out."""
    made = tensor(name, data_type, *dims, ragged=ragged)
    made.optional = True
    return made


def scalar(name: str, data_type: DataType, *, required: bool = False) -> Input:
    """Return an input of one value a request, which the model sees as shape [batch]."""
    made = tensor(name, data_type, 1)
    made.optional = not required
    made.reshape.SetInParent()
    return made


def output(name: str, data_type: DataType, *dims: int) -> Output:
    """Return an output; -1 is any length."""
    return SCHEMA.ModelOutput(name=name, data_type=data_type.value, dims=dims)


def strings(**values: str | int | bool) -> dict[str, Parameter]:
    """Return parameters from plain values; booleans become "true" and "false"."""
    return {
        name: SCHEMA.ModelParameter(
            string_value=str(value).lower() if isinstance(value, bool) else str(value)
        )
        for name, value in values.items()
    }


def dynamic_batching(*preferred_batch_size: int, **settings: int | None) -> DynamicBatching:
    """Return that Triton gathers waiting requests into one call of `execute`."""
    return SCHEMA.ModelDynamicBatching(preferred_batch_size=preferred_batch_size, **settings)


def python_model(
    name: str,
    *,
    max_batch_size: int,
    inputs: Iterable[Input],
    outputs: Iterable[Output],
    batching: DynamicBatching,
    parameters: Mapping[str, Parameter],
    processes: int | None = None,
    backend: str = "python",
    decoupled: bool = False,
) -> ModelConfig:
    """Return the configuration of a model with a backend; Python models choose their device.

    Decoupled: a request may get any number of responses. Parameters are strings in Triton.
    """
    config = SCHEMA.ModelConfig(
        name=name,
        backend=backend,
        max_batch_size=max_batch_size,
        input=inputs,
        output=outputs,
        dynamic_batching=batching,
        instance_group=[SCHEMA.ModelInstanceGroup(count=processes or 1, kind="KIND_CPU")],
        parameters=parameters,
    )
    if decoupled:
        config.model_transaction_policy.decoupled = True
    return config


def ensemble_model(
    name: str,
    *,
    max_batch_size: int,
    inputs: Iterable[Input],
    outputs: Iterable[Output],
    steps: Iterable[EnsembleStep],
) -> ModelConfig:
    """Return the configuration of an ensemble; Triton derives the order of steps from tensors."""
    newest = -1
    return SCHEMA.ModelConfig(
        name=name,
        platform="ensemble",
        max_batch_size=max_batch_size,
        input=inputs,
        output=outputs,
        ensemble_scheduling=SCHEMA.ModelEnsembling(
            step=[
                SCHEMA.ModelEnsembling.Step(
                    model_name=step.model_name,
                    model_version=newest,
                    input_map=step.input_map,
                    output_map=step.output_map,
                )
                for step in steps
            ]
        ),
    )


def as_text(config: ModelConfig) -> str:
    return str(text_format.MessageToString(config))
