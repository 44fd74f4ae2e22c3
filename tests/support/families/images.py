"""Families that take images: a module of this package for each, of the family's name."""

from importlib import import_module
from pathlib import Path

from mm_api.families import FAMILIES, SERVED
from support.families.case import Case


def _case(family: str) -> Case:
    case = import_module(f"support.families.{family.replace('-', '_')}").CASE
    assert isinstance(case, Case)
    return case


CASES = {
    name: _case(name)
    for name, family in FAMILIES.items()
    if name in SERVED and family.sees and family.has_tower
}


def write(family: str, folder: Path) -> Path:
    """Write a checkpoint and return its folder."""
    import torch  # noqa: PLC0415 (seconds; only tests that need a checkpoint pay them)

    torch.manual_seed(11)
    folder.mkdir(parents=True, exist_ok=True)
    CASES[family].write(folder)
    return folder
