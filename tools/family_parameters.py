"""What of a request acts on some families only, whatever the backend: a docs page.

Processors decide (`mm_runtime.serving.preprocess.processors`); a test holds each cell against the
processor of a checkpoint of the family.
"""

from collections.abc import Mapping

from mm_api.families import FAMILIES
from mm_api.families.family import Family
from mm_api.families.image_layouts.layout import ACTS, REFUSED

NOTHING = "-"
SEVERAL = "of several images"
"""Refused of an only one."""

COLUMNS: Mapping[str, str] = {
    "low": "`image_url.detail`: `low`",
    "high": "`high`",
    "audio": "`input_audio`, `audio_url`",
}
"""`auto` acts everywhere; so do `fps`, `num_frames` and `max_frames` where a family has videos."""


def cells(family: Family) -> dict[str, str]:
    """Return column of `COLUMNS` -> what a family does with it; `NOTHING`: it has no such media."""
    layout, sees = family.layout, family.sees
    low, high = (layout.low, layout.high) if sees else (NOTHING, NOTHING)
    if low == REFUSED and layout.features_of_several is not None:
        low = SEVERAL
    return {
        "low": low,
        "high": high,
        "audio": ACTS if family.audio_features is not None else NOTHING,
    }


def families() -> list[Family]:
    """Return those whose chats have more than text."""
    return [one for one in FAMILIES.values() if set(cells(one).values()) != {NOTHING}]
