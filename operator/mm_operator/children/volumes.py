"""Claims in pods: the checkpoint read-only, the store writable for builds alone."""

from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.children.metadata import Manifest
from mm_operator.plan.store import SOURCE_MOUNT, STORE_MOUNT, source_directory, store_of

SOURCE = "source"
STORE = "store"


def source_claim(spec: MultimodalModelSpec) -> str:
    """Return the claim that holds the checkpoint; empty for sources that are no claim."""
    claim = spec.model.source.persistent_volume_claim
    return claim.claim_name if claim else ""


def checkpoint_directory(spec: MultimodalModelSpec) -> str:
    """Return the checkpoint's directory inside a pod."""
    claim = spec.model.source.persistent_volume_claim
    return source_directory(claim.path if claim else "")


def source_volume(spec: MultimodalModelSpec) -> Manifest:
    """Return the volume of the checkpoint: read-only, so its files keep their owners."""
    return _claim(SOURCE, source_claim(spec), read_only=True)


def build_volumes(spec: MultimodalModelSpec) -> list[Manifest]:
    """Return the volumes of a build; one when source and store share a claim.

    A claim may not be attached both read-only and writable to one pod.
    """
    store = _claim(STORE, store_of(spec).claim, read_only=False)
    if source_claim(spec) == store_of(spec).claim:
        return [store]
    return [source_volume(spec), store]


def build_mounts(spec: MultimodalModelSpec) -> list[Manifest]:
    """Return the mounts of a build."""
    shared = source_claim(spec) == store_of(spec).claim
    return [
        {"name": STORE if shared else SOURCE, "mountPath": SOURCE_MOUNT, "readOnly": True},
        {"name": STORE, "mountPath": STORE_MOUNT},
    ]


def source_mount() -> Manifest:
    """Return the mount of the checkpoint."""
    return {"name": SOURCE, "mountPath": SOURCE_MOUNT, "readOnly": True}


def serving_volume(spec: MultimodalModelSpec) -> Manifest:
    """Return the store's volume in serving pods.

    Writable as a volume, because a build on the same node may have attached it so; its mounts are
    read-only.
    """
    return _claim(STORE, store_of(spec).claim, read_only=False)


def serving_mount() -> Manifest:
    """Return the store's mount in serving pods."""
    return {"name": STORE, "mountPath": STORE_MOUNT, "readOnly": True}


def _claim(name: str, claim: str, *, read_only: bool) -> Manifest:
    volume: Manifest = {"claimName": claim}
    if read_only:
        volume["readOnly"] = True
    return {"name": name, "persistentVolumeClaim": volume}
