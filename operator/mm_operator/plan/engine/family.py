"""The record of a checkpoint's family, or the error that says why there is none to plan with."""

from collections.abc import Iterator

from mm_api.backends import REFERENCE
from mm_api.families import FAMILIES, SERVED
from mm_api.families.family import Family
from mm_operator.errors import SpecError


def family_of(name: str) -> Family:
    """Return the record of a family; SpecError: no such one, with a list of the known ones."""
    if name in FAMILIES:
        return FAMILIES[name]
    raise SpecError(
        reason="UnknownFamily",
        message=f"the checkpoint's family {name!r} is not known; known families: "
        f"{', '.join(sorted(FAMILIES))}",
    )


def check_served(family: Family) -> Iterator[SpecError]:
    """Yield an error for a family that the Reference engine does not compute."""
    if family.name not in SERVED:
        yield SpecError(
            "BackendFamily",
            f"backend {REFERENCE.name} does not compute {family.name}: set it to "
            f"{' or '.join(reversed(family.backends))}",
            "spec.engine.backend",
        )
