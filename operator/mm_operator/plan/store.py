"""Where engines are kept, and where pods find the source and the store."""

from dataclasses import dataclass

from mm_api.contract import STORE_MOUNT
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator import names
from mm_operator.addresses import below, bucket_address


@dataclass(frozen=True, slots=True)
class Store:
    """A claim and a directory on it; `operator_made` claims are made and owned by the models."""

    claim: str
    path: str
    operator_made: bool
    bucket: str = ""
    """Address of the bucket that keeps the engines; the claim is then where builds work."""

    @property
    def key(self) -> tuple[str, str]:
        return (self.bucket, "") if self.bucket else (self.claim, self.path)

    @property
    def address(self) -> str:
        return self.bucket or self.directory

    @property
    def directory(self) -> str:
        return below(STORE_MOUNT, self.path)

    def manifest(self, fingerprint: str) -> str:
        return f"{self.directory}/engines/{fingerprint}/manifest.json"


def store_of(spec: MultimodalModelSpec) -> Store:
    claim, s3 = spec.build.store.persistent_volume_claim, spec.build.store.s3
    bucket = bucket_address(s3) if s3 else ""
    if claim is None:
        return Store(claim=names.STORE_CLAIM, path="", operator_made=True, bucket=bucket)
    return Store(claim.claim_name, claim.path.strip("/"), operator_made=False, bucket=bucket)
