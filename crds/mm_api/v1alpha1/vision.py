"""`spec.vision`: the engine of the vision encoder."""

from typing import Annotated, Final, Literal

from pydantic import Field

from mm_api.base import ApiModel
from mm_api.v1alpha1.behavior import Behavior
from mm_api.v1alpha1.names import LabelKey, LabelValue
from mm_api.v1alpha1.pod import GpuProduct, Resources
from mm_api.v1alpha1.quantity import Quantity

VisionEngine = Literal["TensorRT", "ONNXRuntime", "Torch"]
TENSORRT: Final[VisionEngine] = "TensorRT"
Sharing = Literal["Auto", "MPS", "TimeSlicing"]
Placement = Literal["Colocated", "Disaggregated"]


class EncoderGpu(ApiModel):
    """Hardware of an encoder in a pod of its own."""

    product: GpuProduct | None = Field(
        default=None, description="GPU product of encoders. Absent: that of runtime.gpu."
    )
    count: int = Field(
        default=1, ge=0, le=1, description="GPUs of an encoder. 0: it computes on the processor."
    )


class EncoderAutoscaling(ApiModel):
    """Replicas of encoders follow the images that arrive, whatever the language model's do."""

    min_replicas: int = Field(default=1, ge=1, le=1000, description="Fewest encoders.")
    max_replicas: int = Field(ge=1, le=1000, description="Most encoders.")
    behavior: Behavior = Field(
        default=Behavior(), description="How quickly encoders may change, as in autoscaling/v2."
    )


class VisionSpec(ApiModel):
    """The vision encoder."""

    engine: VisionEngine = Field(
        default="ONNXRuntime",
        description="What runs the vision encoder. TensorRT: on backend Reference with a GPU, by "
        "images that hold it (build.image, runtime.image). Torch: on backend VLLM with placement "
        "Disaggregated.",
    )
    max_batch_size: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Images encoded in one step. Absent: planned from the engine's limits.",
    )
    feature_cache_bytes: Quantity = Field(
        default=0, description="Host memory for features of images seen before; 0 keeps none."
    )
    sharing: Sharing = Field(
        default="Auto",
        description="How encoder and language model share a GPU. Auto: MPS where it works.",
    )
    thread_percentage: int | None = Field(
        default=None,
        ge=1,
        le=100,
        description="Share of the GPU's threads the encoder may use under MPS. Absent: 25.",
    )
    placement: Placement = Field(
        default="Colocated",
        description="Where images are encoded. Colocated: in the language model's pods. "
        "Disaggregated: in pods of their own, of the same image (backend VLLM: the operator's "
        "image); a language model's pod keeps its own encoder, for images that none of those pods "
        "answers.",
    )
    replicas: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="Encoders in pods of their own; Disaggregated only. With `autoscaling` the "
        "number that they start with.",
    )
    autoscaling: EncoderAutoscaling | None = Field(
        default=None,
        description="Encoders follow the image work that arrives. Absent: `replicas` of them.",
    )
    gpu: EncoderGpu | None = Field(
        default=None,
        description="Hardware of encoders in pods of their own. Absent: one GPU as in runtime.gpu, "
        "or what `engine` computes on.",
    )
    node_selector: Annotated[dict[LabelKey, LabelValue], Field(max_length=32)] | None = Field(
        default=None,
        description="Labels of nodes for encoders in pods of their own. Absent: "
        "runtime.nodeSelector.",
    )
    resources: Resources = Field(
        default=Resources(),
        description="Compute resources of an encoder in a pod of its own; Disaggregated only.",
    )
