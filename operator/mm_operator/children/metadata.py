"""Names, labels and owners as they stand in an object's metadata."""

from collections.abc import Iterable, Mapping
from typing import Any

from mm_api import labels
from mm_operator.model import Owner, Snapshot

Manifest = dict[str, Any]
"""A Kubernetes object or a part of one, as JSON values."""

FORMER_OWNERS = "formerOwners"
"""Entry of the metadata of what models share: uids that are no longer to own it. Never sent."""

HEX_LABEL_DIGITS = 32
"""Digits of a fingerprint in a label, whose value holds at most 63 characters."""


def own_labels(model: str, component: str) -> dict[str, str]:
    return {
        labels.APP_NAME: labels.APP_NAME_VALUE,
        labels.APP_INSTANCE: model,
        labels.APP_COMPONENT: component,
        labels.APP_MANAGED_BY: labels.MANAGED_BY_VALUE,
        labels.MODEL: model,
    }


def shared_labels(component: str) -> dict[str, str]:
    """Return the labels of an object that models of a namespace share: it names no model."""
    return {
        labels.APP_NAME: labels.APP_NAME_VALUE,
        labels.APP_COMPONENT: component,
        labels.APP_MANAGED_BY: labels.MANAGED_BY_VALUE,
    }


def engine_labels(fingerprint: str) -> dict[str, str]:
    return {
        **shared_labels(labels.Component.BUILD),
        labels.FINGERPRINT: fingerprint[:HEX_LABEL_DIGITS],
    }


def own_metadata(
    snapshot: Snapshot,
    *,
    name: str,
    component: str,
    annotations: Mapping[str, str] | None = None,
) -> Manifest:
    """Return the metadata of an object that goes with its one model."""
    metadata: Manifest = {
        "name": name,
        "namespace": snapshot.namespace,
        "labels": own_labels(snapshot.name, component),
        "ownerReferences": [_model_reference(Owner(snapshot.name, snapshot.uid), controller=True)],
    }
    if annotations:
        metadata["annotations"] = dict(annotations)
    return metadata


def shared_metadata(
    snapshot: Snapshot,
    *,
    name: str,
    labels_: Mapping[str, str],
    joins: bool = True,
    former: Iterable[str] = (),
) -> Manifest:
    """Return the metadata of an object that goes with the last of its models.

    It names the owners that come and go, not those that stay: of 1,000 models each would write the
    list of all at every reconcile.

    `joins`: whether the model is to be among its owners. `former`: uids that are no longer to own
    it.
    """
    own = _model_reference(Owner(snapshot.name, snapshot.uid), controller=False)
    metadata: Manifest = {
        "name": name,
        "namespace": snapshot.namespace,
        "labels": dict(labels_),
        "ownerReferences": [own] if joins else [],
    }
    return metadata | ({FORMER_OWNERS: sorted(former)} if former else {})


def config_reference(name: str, uid: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def _model_reference(owner: Owner, *, controller: bool) -> Manifest:
    """Return a reference to a model.

    Nothing blocks the owner's deletion: that would need a permission on finalizers, and children
    may outlive their model for the moment that the garbage collector needs.
    """
    return {
        "apiVersion": labels.API_VERSION,
        "kind": labels.KIND,
        "name": owner.name,
        "uid": owner.uid,
        "controller": controller,
        "blockOwnerDeletion": False,
    }
