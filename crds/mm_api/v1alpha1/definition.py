"""The CustomResourceDefinition of v1alpha1 as a value: schema, rules, columns, subresources."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

from mm_api import labels
from mm_api.base import ApiModel
from mm_api.families import FAMILIES
from mm_api.structural import Schema, structural
from mm_api.v1alpha1.resource import MultimodalModel
from mm_api.v1alpha1.rules import rules_of

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


NAME: Final = f"{labels.PLURAL}.{labels.GROUP}"
SHORT_NAME: Final = "mmm"

RELEASE: Final = "0.1.0"
"""That of pyproject.toml: which of two definitions is newer."""

UNSUPPORTED_REASON: Final = "FieldValueForbidden"
"""That of rules which come from the table of fields without behaviour."""

_DIGITS = 32


def _column(name: str, path: str, kind: str = "string", *, wide: bool = False) -> dict[str, Any]:
    # No explicit priority 0: the API server drops it, and then a second field manager that applies
    # the same file (kubectl after Helm) would meet a conflict.
    return {"name": name, "type": kind, "jsonPath": path} | ({"priority": 1} if wide else {})


_READY: Final = '.status.conditions[?(@.type=="Ready")]'

COLUMNS: Final = (
    _column("Ready", f"{_READY}.status"),
    _column("Reason", f"{_READY}.reason"),
    _column("Backend", ".spec.engine.backend"),
    _column("Replicas", ".status.readyOfWanted"),
    _column("Url", ".status.url"),
    _column("Age", ".metadata.creationTimestamp", "date"),
    _column("Family", ".status.plan.family", wide=True),
    _column("Engine", ".status.plan.shortFingerprint", wide=True),
    _column("Plan", ".status.plan.shortServingHash", wide=True),
)


@cache
def schema() -> Schema:
    """Return the schema of the resource; all callers share it."""
    resource = structural(MultimodalModel, _validations)
    resource["required"] = ["spec"]  # apiVersion, kind and metadata are checked by the API server
    properties = resource["properties"]
    properties["apiVersion"] = {"type": "string"}
    properties["kind"] = {"type": "string"}
    properties["metadata"] = {"type": "object"}
    return resource


def definition() -> dict[str, Any]:
    """Return the CustomResourceDefinition."""
    spec = {
        "group": labels.GROUP,
        "scope": "Namespaced",
        "names": {
            "kind": labels.KIND,
            "listKind": f"{labels.KIND}List",
            "plural": labels.PLURAL,
            "singular": labels.KIND.lower(),
            "shortNames": [SHORT_NAME],
            "categories": ["all"],
        },
        "versions": [
            {
                "name": labels.VERSION,
                "served": True,
                "storage": True,
                "additionalPrinterColumns": list(COLUMNS),
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas",
                        "labelSelectorPath": ".status.selector",
                    },
                },
                "schema": {"openAPIV3Schema": schema()},
            }
        ],
    }
    content = json.dumps(spec, sort_keys=True).encode()
    marks = {
        labels.DEFINITION_RELEASE: RELEASE,
        labels.DEFINITION_DIGEST: sha256(content).hexdigest()[:_DIGITS],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME, "annotations": marks},
        "spec": spec,
    }


def _validations(kind: type[ApiModel], path: str) -> list[dict[str, str]]:
    """Return the rules of one object of the schema: the type's own, then its unsupported fields."""
    own = [
        {"rule": _guarded(rule.cel, kind), "message": rule.message}
        | ({"fieldPath": f".{rule.field}"} if rule.field else {})
        for rule in rules_of(kind)
    ]
    return own + [
        {
            "rule": _unsupported_cel(row, field, kind),
            "message": row.message,
            "fieldPath": f".{field}",
            "reason": UNSUPPORTED_REASON,
        }
        for row in UNSUPPORTED
        for parent, field in [_place(row)]
        if parent == path
    ]


def _guarded(cel: str, kind: type[ApiModel]) -> str:
    """Return a rule that holds where a defaulted field it reads is absent.

    The API server tries the rules on the default `{}` of an object before it fills the defaults of
    the object's fields. A rule that tests `has` of a field says itself what its absence means.
    """
    defaulted = {
        one.alias
        for one in kind.model_fields.values()
        if not one.is_required() and one.default is not None
    }
    tested = set(re.findall(r"\bhas\(self\.(\w+)\)", cel))
    names = re.findall(r"\bself\.(\w+)", cel)
    read = dict.fromkeys(name for name in names if name in defaulted - tested)
    if not read:
        return cel
    return " || ".join([*(f"!has(self.{name})" for name in read), f"({cel})"])


def _place(row: Unsupported) -> tuple[str, str]:
    """Return the object that a row's rule stands on, and its field from there.

    A rule sees only what is below its object: one that reads the backend stands on the spec.
    """
    if row.backends or row.without_gpu:
        return "spec", row.path
    parent, _, field = f"spec.{row.path}".rpartition(".")
    return parent, field


def _unsupported_cel(row: Unsupported, field: str, kind: type[ApiModel]) -> str:
    others = [f"self.engine.backend != {json.dumps(name)}" for name in row.backends]
    on_gpu = ["self.runtime.gpu.count > 0"] if row.without_gpu else []
    absent = [f"!has(self.{field})"]
    if row.allowed:
        allowed = [f"self.{field} == {json.dumps(value)}" for value in row.allowed]
    elif isinstance(_default(kind, field), (list, dict)):
        allowed = [f"size(self.{field}) == 0"]
    else:
        allowed = []
    if len(others) > 1:
        others = [f"({' && '.join(others)})"]
    return " || ".join([*others, *on_gpu, *absent, *allowed])


def _default(kind: type[ApiModel], path: str) -> object:
    first, _, rest = path.partition(".")
    field = next(one for one in kind.model_fields.values() if one.alias == first)
    if rest and isinstance(field.default, ApiModel):
        return _default(type(field.default), rest)
    return field.default
