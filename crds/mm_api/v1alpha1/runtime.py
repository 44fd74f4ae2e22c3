"""`spec.runtime`: the pods that serve the engine."""

from typing import Annotated

from pydantic import Field

from mm_api.base import ApiModel
from mm_api.v1alpha1.names import ImageName, LabelKey, LabelValue, ObjectName
from mm_api.v1alpha1.pod import Resources, RuntimeGpu, Scheduling, TopologySpread, UserIds
from mm_api.v1alpha1.quantity import AutoOrQuantity


class MemoryPoolsSpec(ApiModel):
    """Triton's memory pools. Too small a CUDA pool fails requests, so Auto is the safe choice."""

    cuda: AutoOrQuantity = Field(
        default="Auto", description="CUDA pool per GPU in bytes, for example 512Mi. Auto: planned."
    )
    pinned: AutoOrQuantity = Field(
        default="Auto", description="Pinned host pool in bytes, for example 256Mi. Auto: planned."
    )


class LabelSelector(ApiModel):
    """Which objects are meant, by their labels."""

    match_labels: Annotated[dict[LabelKey, LabelValue], Field(max_length=16)] = Field(
        default={}, description="Labels that an object must have. Empty: every object."
    )


class Peer(ApiModel):
    """Pods that may connect, as in a NetworkPolicy."""

    pod_selector: LabelSelector | None = Field(
        default=None, description="Labels of the pods. Absent: all pods of the namespaces."
    )
    namespace_selector: LabelSelector | None = Field(
        default=None, description="Labels of their namespaces. Absent: the model's own namespace."
    )


class TritonSpec(ApiModel):
    """Triton's own ports, for clients that speak its protocol."""

    expose: bool = Field(
        default=False,
        description="Publish Triton's HTTP (8000) and gRPC (8001) as Service <name>-triton. They "
        "have no authentication, no queue bound and no limits of images: any client that reaches "
        "them can stop the server. false: Triton listens on loopback, for the gateway only. true "
        "with backend PyTorch: the LLM runs in Triton, as in NVIDIA's guide for Qwen2.5-VL.",
    )
    allow_from: Annotated[list[Peer], Field(max_length=16)] = Field(
        default=[],
        description="Pods that a NetworkPolicy lets reach these ports; it opens the pods' other "
        "ports to everyone, as without a policy. Empty: pods of the model's namespace.",
    )
    max_queue_delay_microseconds: int | None = Field(
        default=None,
        ge=0,
        le=1_000_000,
        description="Triton's models preprocessing and tensorrt_llm wait so long for further "
        "requests of a batch. Absent: 0.",
    )
    enable_chunked_context: bool | None = Field(
        default=None,
        description="TensorRT-LLM's backend may read a prompt in parts; the engine has to be built "
        "for it (extraBuildArgs --use_paged_context_fmha enable, or kvCache.reuse). Absent: false.",
    )
    preprocessing_instance_count: int | None = Field(
        default=None, ge=1, le=64, description="Processes of preprocessing. Absent: 1."
    )
    postprocessing_instance_count: int | None = Field(
        default=None,
        ge=1,
        le=64,
        description="Processes of postprocessing, which the gateway needs none of. Absent: 1.",
    )


class RuntimeSpec(Scheduling):
    """How the engine is served."""

    image: ImageName | None = Field(
        default=None,
        description="Image of the serving pods; with backend VLLM of the container `server` alone. "
        "Absent: the operator's --runtime-image, or --vllm-image.",
    )
    vllm_version: (
        Annotated[str, Field(pattern=r"^\d{1,3}(\.\d{1,3}){2}(\+cpu)?$", max_length=15)] | None
    ) = Field(
        default=None,
        description="Backend VLLM: version of vLLM in the image, for example 0.26.0, or 0.26.0+cpu "
        "of a build for CPUs, with which pods request no GPU. Absent: the one of the image's tag, "
        "for CPUs where its name has the word cpu.",
    )
    gpu: RuntimeGpu = Field(default=RuntimeGpu(), description="GPUs of one replica.")
    resources: Resources = Field(
        default=Resources(),
        description="Compute resources of the server container. A limit of cpu is also that of the "
        "container that pulls an engine from a bucket.",
    )
    memory_pools: MemoryPoolsSpec = Field(
        default=MemoryPoolsSpec(), description="Triton's memory pools."
    )
    streaming: bool = Field(
        default=True,
        description="Triton's models ensemble and tensorrt_llm_bls stream when a client requests "
        "it. false: they answer in one piece, blsInstances requests each at a time, and take "
        "ModelInfer and HTTP infer too, which Triton refuses for models that can stream. The "
        "gateway always can.",
    )
    accumulate_tokens: bool = Field(
        default=False,
        description="Streams of Triton's model tensorrt_llm_bls repeat the full text with each "
        "response, not the new part only. The ensemble's and the gateway's never do.",
    )
    bls_instances: int | None = Field(
        default=None,
        ge=0,
        le=256,
        description="Processes of Triton's model tensorrt_llm_bls; each serves one request at a "
        "time. 0: the model is not served. Absent: 1.",
    )
    max_concurrency: int | None = Field(
        default=None,
        ge=1,
        le=65_536,
        description="Requests in one replica at a time; the CUDA pool is computed for it. Absent: "
        "planned from engine.maxBatchSize.",
    )
    max_queue_size: int = Field(
        default=16, ge=0, le=65_536, description="Requests that wait in front of the engine."
    )
    service_account_name: ObjectName | None = Field(
        default=None,
        description="Service account of the pods; its token is never mounted. Absent: default.",
    )
    image_pull_secrets: Annotated[list[ObjectName], Field(max_length=8)] = Field(
        default=[],
        description="Names of Secrets in the model's namespace for pulling the images of Jobs and "
        "pods. Empty: the operator's (chart value runtime.imagePullSecrets).",
    )
    user_ids: UserIds | None = Field(
        default=None,
        description="Fixed: Jobs and pods of the model run as user, group and fsGroup 65532. "
        "Namespace: the three are left to the namespace, as OpenShift's restricted-v2 requires. "
        "Absent: what the operator is set to (chart value userIds).",
    )
    topology_spread_constraints: Annotated[list[TopologySpread], Field(max_length=8)] = Field(
        default=[],
        description="How servers, and encoders in pods of their own, are spread over zones or "
        "nodes, each kind for itself.",
    )
    triton: TritonSpec = Field(default=TritonSpec(), description="Triton's own ports.")
    pod_labels: Annotated[dict[LabelKey, LabelValue], Field(max_length=16)] = Field(
        default={}, description="Labels added to the serving pods."
    )

    @property
    def bls_processes(self) -> int:
        """Processes of `tensorrt_llm_bls`; each starts in 0.3 s of a core and holds 28 MB."""
        return 1 if self.bls_instances is None else self.bls_instances

    @property
    def llmapi_processes(self) -> int:
        return self.bls_processes if self.triton.expose else 0

    @property
    def pipeline_processes(self) -> int:
        """Those of models that run one request's steps, and further ones of postprocessing.

        Without streaming, `ensemble` has as many as `tensorrt_llm_bls`.
        """
        pipelines = self.bls_processes * (1 if self.streaming else 2) + self.llmapi_processes
        return pipelines + (self.triton.postprocessing_instance_count or 1) - 1
