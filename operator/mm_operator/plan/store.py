"""Where engines are kept, and where pods find the source and the store."""

from dataclasses import dataclass

from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.plan import names

SOURCE_MOUNT = "/mnt/source"
STORE_MOUNT = "/mnt/store"


@dataclass(frozen=True, slots=True)
class Store:
    """A claim and a directory on it; `operator_made` claims are made and owned by the models."""

    claim: str
    path: str
    operator_made: bool

    @property
    def directory(self) -> str:
        """Return the store's directory inside a pod."""
        return _below(STORE_MOUNT, self.path)

    def manifest(self, fingerprint: str) -> str:
        """Return the path of an engine's manifest inside a pod."""
        return f"{self.directory}/engines/{fingerprint}/manifest.json"


def store_of(spec: MultimodalModelSpec) -> Store:
    """Return the store the spec asks for."""
    claim = spec.build.store.persistent_volume_claim
    if claim is None:
        return Store(claim=names.STORE_CLAIM, path="", operator_made=True)
    return Store(claim=claim.claim_name, path=claim.path.strip("/"), operator_made=False)


def source_directory(path: str) -> str:
    """Return the checkpoint's directory inside a pod; `path` is relative to the claim's root."""
    return _below(SOURCE_MOUNT, path.strip("/"))


def _below(mount: str, path: str) -> str:
    return f"{mount}/{path}" if path else mount
