"""Whether an object under the name of a child is the operator's, and would change. Pure.

A forced server-side apply takes every field over and adds an owner, so that the object would be
deleted with the model. Therefore nothing is applied to an object that is not known to be ours.

Drift follows the rule of server-side apply by one manager: every field of the intent must be there
with its value; fields that others added are theirs. Fields that an earlier intent held and this one
does not are noticed by the intent's digest, which travels as an annotation.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mm_api import labels
from mm_api.v1alpha1.quantity import number_of
from mm_operator.cluster.intent import Intent

Metadata = Mapping[str, Any]


def is_ours(metadata: Metadata, intent: Intent) -> bool:
    """Return whether an intent may be applied to the object of its name.

    One of its owners says so, also where the labels were removed. The labels say so too (a
    restored backup, a model created again under its name), unless something else controls the
    object.
    """
    owners = metadata.get("ownerReferences") or ()
    if any(owner["uid"] in intent.owners for owner in owners):
        return True
    if intent.shared and any(map(_is_model, owners)):
        return True
    return _labelled(metadata, intent) and _stranger(owners, intent) is None


def why_taken(metadata: Metadata, intent: Intent) -> str:
    """Return what is wrong with an object that is not ours, and what to do; no generated names."""
    stranger = _stranger(metadata.get("ownerReferences") or (), intent)
    whose = (
        f"is controlled by {stranger['kind']} {stranger['name']}"
        if stranger
        else "has neither the labels nor an owner reference of this operator"
    )
    todo = "delete or rename it" if intent.shared else "delete it, or give the model another name"
    return (
        f"{intent.kind} {intent.name} exists already and {whose}: it is left as it is, and nothing "
        f"of the model is changed; {todo}; the model then continues automatically"
    )


def _labelled(metadata: Metadata, intent: Intent) -> bool:
    there = metadata.get("labels") or {}
    wanted = intent.body["metadata"]["labels"]
    marks = (labels.APP_MANAGED_BY, labels.MODEL)
    return all(there.get(mark) == wanted.get(mark) for mark in marks)


def _stranger(owners: Any, intent: Intent) -> Metadata | None:
    expected = {(owner["kind"], owner["name"]) for owner in intent.owners.values()}
    controllers = (owner for owner in owners if owner.get("controller"))
    return next((one for one in controllers if (one["kind"], one["name"]) not in expected), None)


def _is_model(owner: Metadata) -> bool:
    group = str(owner["apiVersion"]).partition("/")[0]
    return owner["kind"] == labels.KIND and group == labels.GROUP


_MERGE_KEYS = ("name", "mountPath", "containerPort", "port", "uid", "type")
"""What identifies the items of a list, in the order in which it is looked for. `name` before
`containerPort` and `port`: every port of ours is named."""

_QUANTITY_PARENTS = frozenset({"limits", "requests"})
_QUANTITY_FIELDS = frozenset({"sizeLimit"})


def is_in_sync(live: Any, intent: Any, field: str = "", parent: str = "") -> bool:
    """Return whether `live` holds everything that `intent` says."""
    if isinstance(intent, Mapping):
        return isinstance(live, Mapping) and all(
            name in live and is_in_sync(live[name], value, name, field)
            for name, value in intent.items()
        )
    if isinstance(intent, Sequence) and not isinstance(intent, str | bytes):
        return isinstance(live, Sequence) and _list_is_in_sync(live, intent, field)
    if live == intent:
        return True
    return (parent_is_quantity(field, parent)) and _equal_quantities(live, intent)


def parent_is_quantity(field: str, parent: str) -> bool:
    """Return whether a field holds a quantity, which the API server writes in its own way."""
    return parent in _QUANTITY_PARENTS or field in _QUANTITY_FIELDS


def _list_is_in_sync(live: Sequence[Any], intent: Sequence[Any], field: str) -> bool:
    key = _merge_key(intent)
    if key is None:
        return len(live) == len(intent) and all(
            is_in_sync(there, wanted, field) for there, wanted in zip(live, intent, strict=True)
        )
    found = {item[key]: item for item in live if isinstance(item, Mapping) and key in item}
    return all(item[key] in found and is_in_sync(found[item[key]], item, field) for item in intent)


def _merge_key(items: Sequence[Any]) -> str | None:
    for key in _MERGE_KEYS:
        values = [item.get(key) for item in items if isinstance(item, Mapping)]
        if values and len(values) == len(items) and None not in values:
            return key if len(set(values)) == len(values) else None
    return None


def _equal_quantities(live: Any, intent: Any) -> bool:
    try:
        return number_of(live) == number_of(intent)
    except ValueError:
        return False
