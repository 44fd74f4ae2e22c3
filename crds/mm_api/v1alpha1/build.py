"""`spec.build`: the Job that builds the engine, and the store that keeps it."""

from typing import Annotated, Literal

from pydantic import Field

from mm_api.base import ApiModel
from mm_api.v1alpha1.duration import Duration
from mm_api.v1alpha1.model import S3Source
from mm_api.v1alpha1.names import ImageName, ObjectName, RelativePath
from mm_api.v1alpha1.pod import Gpu, Resources, Scheduling
from mm_api.v1alpha1.quantity import Quantity

STORE_SIZE = "50Gi"
"""Size of a store claim that no spec gives a size. No default of the field: a default would look
like a wish of each model that the shared claim be so large."""


class StoreClaim(ApiModel):
    """A claim of yours that keeps engines; it is never deleted by the operator."""

    claim_name: ObjectName = Field(
        description="Name of the PersistentVolumeClaim, for example checkpoints."
    )
    path: RelativePath = Field(
        default="", description="Directory of the store in the volume. Empty: the root."
    )


class S3Store(S3Source):
    """A bucket that keeps engines."""

    prefix: RelativePath = Field(default="", description="Key prefix of the store.")


class StoreSpec(ApiModel):
    """Where engines are kept. Models that share a store share engines of one fingerprint."""

    persistent_volume_claim: StoreClaim | None = Field(
        default=None,
        description="A claim of yours. Absent: the claim multimodal-store, which the operator "
        "makes in the model's namespace and which goes with the last model.",
    )
    s3: S3Store | None = Field(
        default=None,
        description="A bucket. Builds still work on the claim, so that a killed one resumes; the "
        "engine is published into the bucket, and each serving pod pulls it to its node's disk.",
    )
    size: Quantity | None = Field(
        default=None,
        description="Least size of the claim that the operator makes, which the models of a "
        f"namespace share. Absent: {STORE_SIZE} for a new claim, and a claim that is there stays "
        "as it is. A larger size than the claim's makes it grow, where its storage class can; a "
        "claim never shrinks.",
    )
    storage_class_name: ObjectName | None = Field(
        default=None,
        description="Storage class of the claim that the operator makes; it cannot change later. "
        "Absent: the cluster's default class.",
    )
    access_mode: Literal["ReadWriteOnce", "ReadWriteMany"] = Field(
        default="ReadWriteOnce",
        description="Access mode of the claim that the operator makes; it cannot change later. "
        "ReadWriteMany lets pods of several nodes serve from it, where the storage class can.",
    )
    gc_after: Duration | None = Field(
        default=None,
        description="Engines that no model has used for so long are removed from the claim that "
        "the operator makes, for example 168h. Absent: never. Of the models of a namespace, which "
        "share it, the first by name decides. Not with persistentVolumeClaim or s3: who else uses "
        "these is not known.",
    )


class BuildSpec(Scheduling):
    """How the engine is built."""

    image: ImageName | None = Field(
        default=None, description="Image of the build Job. Absent: the operator's --runtime-image."
    )
    trtllm_version: (
        Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+[.a-z0-9]*$", max_length=32)] | None
    ) = Field(
        default=None,
        description="TensorRT-LLM inside the images of build and serving, for example 0.20.0. "
        "Absent: read from the image's tag, for example 25.06-trtllm-python-py3.",
    )
    gpu: Gpu = Field(default=Gpu(), description="GPUs of the build Job.")
    resources: Resources = Field(
        default=Resources(),
        description="Compute resources of the build container. A limit of cpu is also that of "
        "inspect and sweep Jobs, for namespaces whose quota counts limits.cpu.",
    )
    service_account_name: ObjectName | None = Field(
        default=None,
        description="Service account of inspect, build and sweep Jobs, for example one that a "
        "cloud lets read the bucket of the checkpoint; its Kubernetes token is never mounted. "
        "Absent: default.",
    )
    store: StoreSpec = Field(default=StoreSpec(), description="Where engines are kept.")
    timeout: Duration = Field(
        default="2h",
        description="A build that runs longer is stopped, for example 90m or 2h. It counts from "
        "the start of the build: what its pod waits for volumes and its image does not count.",
    )
    retries: Annotated[int, Field(ge=0, le=20)] = Field(
        default=3,
        description="How often a build is tried again after it was killed, evicted or timed out.",
    )
    evaluation: Literal["Auto", "Off"] = Field(
        default="Auto",
        description="Auto: the build keeps the checkpoint's own answers to a few prompts with the "
        "engine, and a pod whose answers differ is never Ready; status.plan.evaluation has the "
        "cost. Off: neither.",
    )
    ttl_after_finished: Duration = Field(
        default="24h",
        description="How long a build Job that has ended stays, with its pod's log; a build that "
        "failed for good is retried after that.",
    )
