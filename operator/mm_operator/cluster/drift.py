"""Would applying an intent change a live object? Decided without a request to the API server.

The rule is that of server-side apply by one manager: every field of the intent must be there with
its value; fields that others added are theirs. Fields that an earlier intent held and this one does
not are noticed by the intent's digest, which travels as an annotation.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mm_api.v1alpha1.quantity import number_of

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
