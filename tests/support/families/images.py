"""Families that take images: a module of this package for each, of the family's name."""

from importlib import import_module
from pathlib import Path

from mm_api.families import FAMILIES, SERVED
from support.families.case import Case


def _case(family: str) -> Case:
    case = import_module(f"support.families.{family.replace('-', '_')}").CASE
    assert isinstance(case, Case)
    return case


WRITTEN = {
    name: _case(name)
    for name, family in FAMILIES.items()
    if family.backends and family.sees and family.has_tower
}
"""Also what vLLM alone serves."""

CASES = {name: case for name, case in WRITTEN.items() if name in SERVED}


def write(family: str, folder: Path) -> Path:
    import torch  # noqa: PLC0415 (seconds; only tests that need a checkpoint pay them)

    torch.manual_seed(11)
    folder.mkdir(parents=True, exist_ok=True)
    WRITTEN[family].write(folder)
    return folder
