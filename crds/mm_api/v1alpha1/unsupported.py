"""Fields whose behaviour this version does not have yet, in ONE table: `unsupported.json`.

The generator turns it into CEL rules of the CRD, so that the API server refuses them. A change
that gives a field its behaviour deletes its row there.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from mm_api.families import FAMILIES

Scalar = str | int | bool


@dataclass(frozen=True, slots=True)
class Unsupported:
    """One field, by its path below `spec`, that must keep one of a few values.

    `allowed`: empty: the field must be absent or empty. `what`: what a user would have wanted from
    another value; `instead`: what to do now. `backends`: those without the behaviour; empty: all.
    `without_gpu`: only where `runtime.gpu.count` is 0.
    """

    path: str
    allowed: tuple[Scalar, ...]
    what: str
    instead: str
    backends: tuple[str, ...] = ()
    without_gpu: bool = False

    @property
    def message(self) -> str:
        where = f" with backend {' or '.join(self.backends)}" if self.backends else ""
        where += " without GPUs" if self.without_gpu else ""
        return f"{self.what} not supported{where} in this version: {self.instead}"


_QUOTE: Final = '"'


def _row(
    path: str,
    backends: list[str],
    what: str,
    *,
    allowed: Iterable[Scalar] = (),
    instead: str = "",
    more: str = "",
    without_gpu: bool = False,
) -> Unsupported:
    # Usual is the one allowed value, or no field; `more` follows.
    values = tuple(allowed)
    usual = f"set {path} to {json.dumps(values[0]).strip(_QUOTE)}" if values else "remove the field"
    return Unsupported(path, values, what, (instead or usual) + more, tuple(backends), without_gpu)


_ROWS: Final = files("mm_api.v1alpha1") / "unsupported.json"

UNSUPPORTED: Final[tuple[Unsupported, ...]] = (
    *(
        _row(
            "model.family",
            ["Reference"],
            f"a model of this family ({family.name}) is",
            allowed=(name for name in FAMILIES if name != family.name),
            instead=f"set engine.backend to {' or '.join(reversed(family.backends))}",
        )
        for family in FAMILIES.values()
        if not family.on_reference
    ),
    *(_row(**row) for row in json.loads(_ROWS.read_text(encoding="utf-8"))),
)
