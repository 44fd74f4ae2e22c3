"""Families: what is peculiar to each, as facts and formulas; everything else is generic.

Belongs here: one file per family with one `Family` record, and this registry. Must not: read a
spec, decide, or know Kubernetes. May import: `mm_api`, `mm_operator.errors`,
`mm_operator.plan.pools`, `mm_operator.plan.families`. `#name` is a section of
docs/planning-sources.md.
"""

from mm_operator.errors import SpecError
from mm_operator.plan.families.bart import BART
from mm_operator.plan.families.blip2_opt import BLIP2_OPT
from mm_operator.plan.families.blip2_t5 import BLIP2_T5
from mm_operator.plan.families.byt5 import BYT5
from mm_operator.plan.families.family import Family
from mm_operator.plan.families.flan_t5 import FLAN_T5
from mm_operator.plan.families.llava import LLAVA
from mm_operator.plan.families.llava_onevision import LLAVA_ONEVISION
from mm_operator.plan.families.mbart import MBART
from mm_operator.plan.families.mllama import MLLAMA
from mm_operator.plan.families.mt5 import MT5
from mm_operator.plan.families.nmt import NMT
from mm_operator.plan.families.qwen2_vl import QWEN2_VL
from mm_operator.plan.families.t5 import T5
from mm_operator.plan.families.vila import VILA
from mm_operator.plan.families.whisper import WHISPER

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        *(BLIP2_OPT, BLIP2_T5, LLAVA, VILA, LLAVA_ONEVISION, MLLAMA, QWEN2_VL),
        *(T5, FLAN_T5, MT5, BYT5, BART, MBART, NMT, WHISPER),
    )
}
"""Every family that can be planned."""

SERVED = frozenset(FAMILIES) - {BLIP2_T5.name}
"""Families that this version builds and serves on the Reference engine: all but BLIP-2 with T5,
which upstream's server does not know either."""


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


def served_family(name: str) -> Family:
    """Return the record of a family that this version serves.

    Raises:
        SpecError: not known, or planned by `mmctl plan` only.
    """
    family = family_of(name)
    if name in SERVED:
        return family
    raise SpecError(
        reason="NotSupported",
        path="spec.model.source",
        message=f"the checkpoint is of the family {name}, which this version plans (mmctl plan) "
        f"and does not serve yet: use a checkpoint of {', '.join(sorted(SERVED))}",
    )
