"""The claim that keeps engines when the user brings none: one per namespace, owned by its users."""

from mm_api import labels
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_api.v1alpha1.quantity import number_of
from mm_operator.children.metadata import Manifest, shared_labels, shared_metadata
from mm_operator.model import Plan, Snapshot
from mm_operator.plan.store import store_of


def build_store_claim(snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan) -> Manifest | None:
    """Return the claim once a plan needs it; never for a claim of the user's.

    The first model decides class and modes: an existing claim keeps its own. Its size only grows.
    """
    store = store_of(spec)
    if not store.operator_made or plan.build_plan is None:
        return None
    found = snapshot.observed.store
    size = _larger(found.size, spec.build.store.size) if found else str(spec.build.store.size)
    storage_class = found.storage_class if found else spec.build.store.storage_class_name
    claim: Manifest = {
        "accessModes": list(found.access_modes) if found else [spec.build.store.access_mode],
        "resources": {"requests": {"storage": size}},
    }
    if storage_class is not None:
        claim["storageClassName"] = storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": shared_metadata(
            snapshot,
            name=store.claim,
            labels_=shared_labels(labels.Component.STORE),
            former=snapshot.store_leavers,
        ),
        "spec": claim,
    }


def _larger(there: str, wanted: int | str) -> str:
    """Return the larger of two sizes as it is written; `there` when they are equal."""
    return str(wanted) if number_of(wanted) > number_of(there) else there
