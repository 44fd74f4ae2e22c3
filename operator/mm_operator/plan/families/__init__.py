"""Families: what is peculiar to each, as facts and formulas; everything else is generic.

Belongs here: one file per family with one `Family` record, and this registry. Must not: read a
spec, decide, or know Kubernetes. May import: `mm_api`, `mm_operator.plan.families.family`.
"""

from mm_operator.errors import SpecError
from mm_operator.plan.families import llava
from mm_operator.plan.families.family import Family

FAMILIES: dict[str, Family] = {family.name: family for family in (llava.LLAVA,)}


def family_of(name: str) -> Family:
    """Return the record of a family.

    Raises:
        SpecError: no such family; the message lists the known ones.
    """
    if name in FAMILIES:
        return FAMILIES[name]
    raise SpecError(
        reason="UnknownFamily",
        message=f"the checkpoint's family {name!r} is not known; known families: "
        f"{', '.join(sorted(FAMILIES))}",
    )
