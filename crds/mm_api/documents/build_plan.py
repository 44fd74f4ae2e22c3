"""The plan: everything the build needs, decided before a GPU is requested.

Written by the operator into a ConfigMap, read by the build Job (`mm-runtime build --plan`) and
kept in the manifest. The fingerprint covers `EngineSpec`, the adapters wherever they lie and, for
TensorRT-LLM, `TrtllmBuild` without the GPU's memory; nothing else changes an engine's bytes.
"""

from typing import Literal

from pydantic import Field

from mm_api.backends import BACKENDS, Name, Traits
from mm_api.base import Document
from mm_api.documents.lora_adapter import LoraAdapter, LoraAdapters
from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.trtllm_build import TrtllmBuild

FINGERPRINT_PATTERN = r"^[0-9a-f]{64}$"


class EngineLimits(Document):
    """Limits the language-model engine is built with (TensorRT-LLM's names)."""

    max_batch_size: int = Field(ge=1, description="Requests decoded in one step.")
    max_input_len: int = Field(
        ge=1, description="Longest prompt in tokens, image features included."
    )
    max_seq_len: int = Field(ge=1, description="Prompt and answer together, in tokens.")
    max_num_tokens: int = Field(ge=1, description="Tokens in one step over all requests.")
    max_beam_width: int = Field(ge=1, description="Widest beam search.")
    max_images_per_request: int = Field(ge=0, description="Images in one request.")
    max_multimodal_len: int = Field(ge=0, description="Rows of the prompt table over all requests.")
    max_encoder_input_len: int | None = Field(
        default=None, ge=1, description="Tokens that cross attention reads. Absent: there is none."
    )


class VisionBuild(Document):
    """How a build of ours makes an engine of TensorRT: in which type, and for which GPU alone."""

    dtype: Literal["float16", "float32"]
    product: str
    compute_capability: str


class VisionPlan(Document):
    """The vision engine: which runtime, which batch profile, how exact."""

    engine: Literal["TensorRT", "ONNXRuntime", "Torch"]
    image_size: int = Field(ge=1)
    features_per_image: int = Field(ge=1)
    max_batch_size: int = Field(ge=1)
    opset: int = Field(ge=17, description="ONNX operator set of the export.")
    tolerance: float = Field(
        gt=0,
        description="Largest allowed difference to torch: absolute, of TensorRT by the norm.",
    )
    tensorrt: VisionBuild | None = Field(
        default=None, description="None: no TensorRT, or an engine of TensorRT-LLM's own builder."
    )

    @property
    def may_use_gpu(self) -> bool:
        """Return whether the engine computes on the plan's device, with tensors of torch."""
        return self.engine == "Torch" or self.tensorrt is not None

    @property
    def uses_tensorrt(self) -> bool:
        """Return whether TensorRT runs it, on a GPU, whatever the plan's device."""
        return self.engine == "TensorRT"


class EngineSpec(Document):
    """Everything that changes the bytes of an engine, and nothing else."""

    source_digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    family: str
    backend: Name
    dtype: str
    limits: EngineLimits
    vision: VisionPlan | None = None
    builder_version: str = Field(
        description="Version of the build code; a new one means a new engine."
    )
    evaluation: Literal["Off"] | None = Field(
        default=None,
        description="Off: the checkpoint's answers are not kept with the engine. None: they are.",
    )
    guided_decoding: Literal["Off"] | None = Field(
        default=None, description="Off: without the tokenizer's table. None: with it, if any."
    )
    disaggregated_encoders: Literal["On"] | None = Field(
        default=None,
        description="Backend VLLM: On: the vision half is exported for encoders in pods of their "
        "own. None: it is not.",
    )

    @property
    def traits(self) -> Traits:
        return BACKENDS[self.backend]


class BuildPlan(Document):
    """One build: its engine, the facts it was planned from, and its fingerprint."""

    format_version: Literal[1] = 1
    fingerprint: str = Field(pattern=FINGERPRINT_PATTERN)
    engine: EngineSpec
    facts: ModelFacts
    trtllm: TrtllmBuild | None = Field(
        default=None, description="Backend TensorRT: the commands. None: none are run."
    )
    lora: LoraAdapters | None = Field(
        default=None,
        description="Backends Reference and VLLM: adapters that are kept with the engine; those "
        "of engines of TensorRT-LLM are part of its commands. None: there are none.",
    )
    allow_pickle: bool = False
    trust_remote_code: bool = False

    @property
    def adapters(self) -> list[LoraAdapter]:
        """Return the LoRA adapters of the engine, whatever its backend."""
        return (self.trtllm.lora if self.trtllm else self.lora) or []
