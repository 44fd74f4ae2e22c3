"""From the full object a builder returns to what is sent: no empty opinions, digest, manager label.

Pure. The digest leaves the owners out: they are shared state, compared by themselves.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from mm_api import labels
from mm_operator.children.metadata import FORMER_OWNERS


@dataclass(frozen=True, slots=True)
class Intent:
    """One object as it will be applied."""

    kind: str
    namespace: str
    name: str
    body: Mapping[str, Any]
    """Complete, with ownerReferences and the digest's annotation."""
    digest: str
    owners: Mapping[str, Mapping[str, Any]]
    """Uid of each owner -> its reference; of what models share only those that are to join."""
    leavers: frozenset[str] = frozenset()
    """Uids that are no longer to own what models share."""

    @property
    def shared(self) -> bool:
        """Return whether several models own the object: it carries no model's label."""
        return labels.MODEL not in (self.body["metadata"].get("labels") or {})

    def content(self) -> dict[str, Any]:
        """Return what is compared with a live object: everything but type and owners.

        Items of a list do not say their apiVersion; owners are compared by themselves.
        """
        metadata = {**self.body["metadata"]}
        metadata.pop("ownerReferences", None)
        content = {
            name: part for name, part in self.body.items() if name not in {"apiVersion", "kind"}
        }
        return {**content, "metadata": metadata}

    def at(self, version: int, uid: str = "") -> Mapping[str, Any]:
        """Return the body to send: refused at another version, or of another object's uid."""
        metadata = {**self.body["metadata"]}
        metadata |= {"resourceVersion": str(version)} if version else {}
        metadata |= {"uid": uid} if uid else {}
        return {**self.body, "metadata": metadata}

    def with_owners(self, owners: Mapping[str, Mapping[str, Any]]) -> "Intent":
        metadata = {**self.body["metadata"], "ownerReferences": list(owners.values())}
        return replace(self, body={**self.body, "metadata": metadata}, owners=owners)


def make_intent(document: Mapping[str, Any]) -> Intent:
    """Return the intent of a builder's object. `None` anywhere in it means "no opinion"."""
    body = without_none(document)
    metadata = body["metadata"]
    owners = metadata.pop("ownerReferences", [])
    leavers = frozenset(metadata.pop(FORMER_OWNERS, ()))
    text = orjson.dumps(body, option=orjson.OPT_SORT_KEYS)
    digest = hashlib.sha256(text).hexdigest()[:32]
    metadata["annotations"] = {**metadata.get("annotations", {}), labels.INTENT_HASH: digest}
    metadata["labels"] = {
        **metadata.get("labels", {}),
        labels.APP_MANAGED_BY: labels.MANAGED_BY_VALUE,
    }
    if owners:
        metadata["ownerReferences"] = owners
    return Intent(
        kind=body["kind"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        body=body,
        digest=digest,
        owners={owner["uid"]: owner for owner in owners},
        leavers=leavers,
    )


def without_none(value: Any) -> Any:
    """Return a copy without mapping entries that are None: an apply would claim them as null."""
    if isinstance(value, dict):  # not Mapping: a builder's object has 400 parts, all of them dicts
        return {name: without_none(item) for name, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [without_none(item) for item in value]
    return value
