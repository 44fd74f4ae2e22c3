"""Whether an object that exists under the name of a child is the operator's to change. Pure.

A forced server-side apply takes every field over and adds an owner, so that the object would be
deleted with the model. Therefore nothing is applied to an object that is not known to be ours.
"""

from collections.abc import Mapping
from typing import Any

from mm_api import labels
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
