"""Every field of the resource with a value that is not its default, and what that value needs."""

import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml
from annotated_types import Ge
from pydantic.fields import FieldInfo

from mm_api.base import ApiModel
from mm_api.v1alpha1 import MultimodalModelSpec


@dataclass(frozen=True, slots=True)
class Sample:
    """A value of one field.

    Attributes:
        value: valid by itself, and not the default.
        beside: spec that the value needs to be valid; both sides of a comparison have it.
    """

    value: object
    beside: Mapping[str, Any] = field(default_factory=dict)


WRITTEN: Final[Mapping[str, Sample]] = {
    name: Sample(**row)
    for name, row in yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text()).items()
}


def leaves(
    model: type[ApiModel] = MultimodalModelSpec, path: str = ""
) -> Iterator[tuple[str, FieldInfo]]:
    for name, info in model.model_fields.items():
        where = f"{path}{info.alias or name}"
        options = typing.get_args(info.annotation) or (info.annotation,)
        part = next(
            (one for one in options if isinstance(one, type) and issubclass(one, ApiModel)), None
        )
        if part is not None and typing.get_origin(info.annotation) not in {list, tuple}:
            yield from leaves(part, f"{where}.")
        else:
            yield where, info


def sample_of(path: str, info: FieldInfo, backend: str) -> Sample:
    for key in (f"{path}@{backend}", path):
        if key in WRITTEN:
            return WRITTEN[key]
    options = [info.annotation, *typing.get_args(info.annotation)]
    if bool in options:
        return Sample(not info.default)
    if int in options:
        least = next((rule.ge for rule in info.metadata if isinstance(rule, Ge)), 0)
        return Sample(int(info.default if info.default is not None else least) + 1)  # type: ignore[call-overload]
    for option in options:
        if typing.get_origin(option) is typing.Literal:
            return Sample(next(one for one in typing.get_args(option) if one != info.default))
    raise LookupError(f"{path} has no sample: write one in field_samples.yaml")
