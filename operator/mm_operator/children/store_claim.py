"""The claim that keeps engines when the user brings none: one per namespace, owned by its users."""

from mm_api import labels
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_api.v1alpha1.build import STORE_SIZE
from mm_api.v1alpha1.quantity import number_of
from mm_operator.children.metadata import Manifest, shared_labels, shared_metadata
from mm_operator.model import ClaimState, Plan, Snapshot
from mm_operator.plan.store import store_of


def build_store_claim(snapshot: Snapshot, spec: MultimodalModelSpec, plan: Plan) -> Manifest | None:
    """Return the claim once a plan needs it; never for a claim of the user's.

    The first model decides class and modes: an existing claim keeps its own, and its size where
    this spec does not request more. Only a bound claim can grow (admission of Kubernetes).
    """
    store = store_of(spec)
    if not store.operator_made or plan.build_plan is None:
        return None
    found = snapshot.observed.store
    size = str(spec.build.store.size or STORE_SIZE)
    if found and not (found.phase == "Bound" and wants_growth(found, spec)):
        size = found.size
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


def wants_growth(found: ClaimState, spec: MultimodalModelSpec) -> bool:
    size = spec.build.store.size
    return size is not None and number_of(size) > number_of(found.size)
