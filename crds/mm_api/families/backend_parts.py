"""What each backend makes of a family."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from mm_api.documents.model_facts import ModelFacts


@dataclass(frozen=True, slots=True)
class TensorRTLLM:
    """How TensorRT-LLM builds and serves the family (#commands, #encoders)."""

    converter: str = ""
    """Folder of convert_checkpoint.py: llama, qwen, mllama, opt, enc_dec, whisper; empty: there is
    no converter or no vision builder."""
    convert_flags: tuple[str, ...] = ()
    build_flags: tuple[tuple[str, str], ...] = ()
    """Flags of trtllm-build beside the limits; `{dtype}` is the engine's."""
    encoder_flags: tuple[tuple[str, str], ...] = ()
    vision_type: str | None = None
    """model_type of the vision builder."""
    vision_flags: tuple[str, ...] = ()
    """Flags of the vision builder beside folders and the size of a batch."""
    vision_path_flags: tuple[str, ...] = ()
    """Flags of the vision builder that name folders beside the checkpoint's."""
    vision_packages: tuple[str, ...] = ()
    """Packages that the vision builder imports for the family, and that upstream's image lacks."""
    built_vision_type: str | None = None
    """model_type in the config of the vision engine; None: as on the command line."""
    keeps_class_token: bool = True
    """False: upstream's vision wrapper drops the class token, whatever the checkpoint says."""
    checkpoint_folder: str = "checkpoint"
    """Folder that the commands read the checkpoint from: one converter knows it by its name."""
    model_name: Callable[[ModelFacts], str | None] | None = None
    """The converter's --model_name, of weights in `<name>.pt`; None: none for such sizes."""
    reads_pickles: bool = False
    """The converter loads `<size>.pt` and knows no other format."""
    since: str | None = None
    """First TensorRT-LLM whose backend in Triton is known to take what the family needs; None:
    every version that is planned for."""
    max_images: int = 64
    """Images in one request that upstream's models can serve."""
    max_images_reason: str = ""
    tensor_parallel: bool = True
    """The converter has --tp_size."""
    pipeline_parallel: bool = True
    """The converter has --pp_size, and what the encoder made is read by the first stage alone."""
    quantizations: tuple[str, ...] = ()
    videos: bool = True
    """Upstream's models take the family's videos too."""
    notes: tuple[str, ...] = ()
    """For TensorRT engines only."""


NO_ENGINES = TensorRTLLM()
GEMM = (("gemm_plugin", "{dtype}"),)
LLAMA_ENGINES = TensorRTLLM(
    converter="llama",
    build_flags=GEMM,
    quantizations=("FP8", "INT8WeightOnly", "INT4WeightOnly", "INT4AWQ", "SmoothQuant"),
)
"""Decoders of LLaMA's blocks."""

QWEN_ENGINES = replace(LLAMA_ENGINES, converter="qwen")


@dataclass(frozen=True, slots=True)
class PyTorchServing:
    """What trtllm-serve's PyTorch backend does with the family.

    Its classes: @register_auto_model in tensorrt_llm/_torch/models; the table of
    docs/source/models/supported-models.md. There is none for LlavaForConditionalGeneration,
    LlavaOnevisionForConditionalGeneration and Blip2ForConditionalGeneration, and that of VILA 1.5
    fails on each image.
    """

    images: bool
    """False: it reads text only."""
    most_images: int | None = None
    """In one request; None: as many as upstream's models of Triton take (`max_images`)."""
    options: Mapping[str, bool | str] = field(default_factory=dict)
    """Options in trtllm-serve's file, which it needs for images."""
    since: str | None = None
    """First TensorRT-LLM that is documented to have the class; None: all that are planned for."""
    videos_since: str | None = None
    """First TensorRT-LLM that reads a video from the request itself, keeps every frame of it where
    its options say so, and gives a video of one frame the features of that image. None: no version
    does (#pytorch)."""


@dataclass(frozen=True, slots=True)
class ReferenceFamily:
    """What the Reference engine computes for the family."""

    fused_passes: bool = False
    """On a GPU the Reference engine has passes of its own; none for decoders with a window."""


TORCH_ALONE = ReferenceFamily()
FUSED = ReferenceFamily(fused_passes=True)
