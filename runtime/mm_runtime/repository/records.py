"""PURE: typed parts of a `config.pbtxt`. How they are spelt in Triton is `pbtxt`'s business."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


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


class InstanceKind(Enum):
    """Where an instance is counted; Python models choose their device themselves."""

    CPU = "KIND_CPU"


@dataclass(frozen=True, slots=True)
class Reshape:
    """Shape the model sees instead of `dims`, both without the batch dimension."""

    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output; `dims` without the batch dimension, -1 for any length."""

    name: str
    data_type: DataType
    dims: tuple[int, ...]
    optional: bool = False
    ragged: bool = False
    """Requests of different lengths may still be given to the model together."""

    reshape: Reshape | None = None


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """Bound of the queue before a model; 0 means none."""

    max_queue_size: int


@dataclass(frozen=True, slots=True)
class DynamicBatching:
    """Triton gathers waiting requests into one call of `execute`."""

    preferred_batch_size: tuple[int, ...] = ()
    queue_policy: QueuePolicy | None = None


@dataclass(frozen=True, slots=True)
class InstanceGroup:
    """How many processes of a Python model there are."""

    count: int
    kind: InstanceKind


@dataclass(frozen=True, slots=True)
class TransactionPolicy:
    """Decoupled: a request may get any number of responses."""

    decoupled: bool


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value a model reads from its configuration; Triton has strings only."""

    string_value: str


@dataclass(frozen=True, slots=True)
class EnsembleStep:
    """One model of the ensemble: its tensor name -> the ensemble's tensor name."""

    model_name: str
    input_map: Mapping[str, str]
    output_map: Mapping[str, str]
    model_version: int = -1
    """-1: the newest version there is."""


@dataclass(frozen=True, slots=True)
class EnsembleScheduling:
    """The ensemble's steps; Triton derives their order from the tensors."""

    steps: tuple[EnsembleStep, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """One model's `config.pbtxt`, in the order of its text; has a backend or a platform."""

    name: str
    backend: str | None = None
    platform: str | None = None
    max_batch_size: int
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    transaction_policy: TransactionPolicy | None = None
    dynamic_batching: DynamicBatching | None = None
    instance_groups: tuple[InstanceGroup, ...] = ()
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    ensemble: EnsembleScheduling | None = None


def tensor(name: str, data_type: DataType, *dims: int, ragged: bool = False) -> Tensor:
    """Return a tensor that every request has."""
    return Tensor(name, data_type, dims, ragged=ragged)


def optional(name: str, data_type: DataType, *dims: int, ragged: bool = False) -> Tensor:
    """Return an input that a request may leave out."""
    return Tensor(name, data_type, dims, optional=True, ragged=ragged)


def scalar(name: str, data_type: DataType, *, required: bool = False) -> Tensor:
    """Return an input of one value a request, which the model sees as shape [batch]."""
    return Tensor(name, data_type, (1,), optional=not required, reshape=Reshape(()))


def strings(**values: str | int | bool) -> dict[str, Parameter]:
    """Return parameters from plain values; booleans become "true" and "false"."""
    return {
        name: Parameter(str(value).lower() if isinstance(value, bool) else str(value))
        for name, value in values.items()
    }
