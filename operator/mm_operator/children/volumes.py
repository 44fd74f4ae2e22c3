"""Claims in pods: the checkpoint read-only, the store writable for builds alone."""

from mm_api import labels
from mm_api.contract import ADAPTERS_MOUNT, CONFIG_MOUNT, SOURCE_MOUNT, STORE_MOUNT
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.children.metadata import Manifest
from mm_operator.model import Snapshot
from mm_operator.plan import adapters
from mm_operator.plan.store import store_of

SOURCE = "source"
STORE = "store"


def source_claim(spec: MultimodalModelSpec) -> str:
    """Return the claim that holds the checkpoint; empty when none does."""
    claim = spec.model.source.persistent_volume_claim
    return claim.claim_name if claim else ""


def source_volumes(spec: MultimodalModelSpec) -> list[Manifest]:
    """Return the volumes of checkpoint and adapters: read-only: files keep their owners."""
    claim = source_claim(spec)
    source = [_claim(SOURCE, claim, read_only=True)] if claim else []
    return [*source, *_adapter_volumes(spec, attached="")]


def build_volumes(spec: MultimodalModelSpec) -> list[Manifest]:
    """Return the volumes of a build; one when source and store share a claim.

    A claim may not be attached both read-only and writable to one pod.
    """
    store = _claim(STORE, store_of(spec).claim, read_only=False)
    if source_claim(spec) == store_of(spec).claim:
        return [store, *_adapter_volumes(spec, attached=store_of(spec).claim)]
    source = [_claim(SOURCE, source_claim(spec), read_only=True)] if source_claim(spec) else []
    return [*source, *_adapter_volumes(spec, attached=store_of(spec).claim), store]


def build_mounts(spec: MultimodalModelSpec) -> list[Manifest]:
    shared = source_claim(spec) == store_of(spec).claim
    source = source_mounts(spec, volume=STORE if shared else SOURCE)
    others = _adapter_mounts(spec, attached=store_of(spec).claim)
    return [*source, *others, {"name": STORE, "mountPath": STORE_MOUNT}]


def source_mounts(spec: MultimodalModelSpec, volume: str = SOURCE) -> list[Manifest]:
    """Return the mount of the checkpoint, if it lies on a claim."""
    mount: Manifest = {"name": volume, "mountPath": SOURCE_MOUNT, "readOnly": True}
    return [mount] if source_claim(spec) else []


def inspect_mounts(spec: MultimodalModelSpec) -> list[Manifest]:
    return [*source_mounts(spec), *_adapter_mounts(spec, attached="")]


def _adapter_volumes(spec: MultimodalModelSpec, *, attached: str) -> list[Manifest]:
    """Return the volumes of adapters whose claim is not attached for writing already."""
    return [
        _claim(f"adapters-{number}", claim, read_only=True)
        for number, claim in enumerate(adapters.claims(spec))
        if claim != attached
    ]


def _adapter_mounts(spec: MultimodalModelSpec, *, attached: str) -> list[Manifest]:
    return [
        {
            "name": STORE if claim == attached else f"adapters-{number}",
            "mountPath": f"{ADAPTERS_MOUNT}/{claim}",
            "readOnly": True,
        }
        for number, claim in enumerate(adapters.claims(spec))
    ]


def store_volume(spec: MultimodalModelSpec) -> Manifest:
    return _claim(STORE, store_of(spec).claim, read_only=False)


def beside_servers(
    snapshot: Snapshot, spec: MultimodalModelSpec, attached: list[Manifest]
) -> Manifest:
    """Return the preference to run where serving pods hold a claim that one node may attach.

    A preference only: a build may need a GPU of another node, and then waits until the claim is
    free. An affinity of the user's counts instead. `attached`: volumes of the pod that shall run.
    """
    if spec.build.affinity:
        return {}
    store, own = store_of(spec), snapshot.claims_of_one_node
    claims = {one["persistentVolumeClaim"]["claimName"] for one in attached}
    models = {model for claim in claims & own.keys() for model in own[claim]}
    preferences = [_preference(sorted(models))] if models else []
    if store.operator_made and not store.bucket and store.claim in claims:
        preferences.append(_preference([]))
    if not preferences:
        return {}
    return {
        "affinity": {
            "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferences}
        }
    }


def _preference(models: list[str]) -> Manifest:
    """Return the preference to be beside serving pods of models; without any: of the namespace."""
    servers = {
        labels.APP_NAME: labels.APP_NAME_VALUE,
        labels.APP_COMPONENT: labels.Component.SERVER,
    }
    selector: Manifest = {"matchLabels": servers}
    if models:
        selector["matchExpressions"] = [{"key": labels.MODEL, "operator": "In", "values": models}]
    term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
    return {"weight": 100, "podAffinityTerm": term}


def store_mount() -> Manifest:
    return {"name": STORE, "mountPath": STORE_MOUNT}


def serving_volume(spec: MultimodalModelSpec) -> Manifest:
    """Return the store's volume in serving pods; a pulled engine lies on the node's disk.

    Writable as a volume, because a build on the same node may have attached it so; its mounts are
    read-only.
    """
    if store_of(spec).bucket:
        return {"name": STORE, "emptyDir": {}}
    return _claim(STORE, store_of(spec).claim, read_only=False)


def serving_mount() -> Manifest:
    return {"name": STORE, "mountPath": STORE_MOUNT, "readOnly": True}


def config_mount() -> Manifest:
    return {"name": "serving", "mountPath": CONFIG_MOUNT, "readOnly": True}


def _claim(name: str, claim: str, *, read_only: bool) -> Manifest:
    volume: Manifest = {"claimName": claim}
    if read_only:
        volume["readOnly"] = True
    return {"name": name, "persistentVolumeClaim": volume}
