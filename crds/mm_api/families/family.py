"""The record that describes a family."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from mm_api.backends import BACKENDS, PYTORCH, REFERENCE, VLLM
from mm_api.checkpoint.values import Dimensions, JsonObject
from mm_api.documents.model_facts import ModelFacts, VisionFacts
from mm_api.families.checkpoint_files import BESIDE_TOWER, CheckpointFiles
from mm_api.families.image_layouts.layout import SQUARE, ImageLayout
from mm_api.families.prompt import PromptStyle
from mm_api.families.text_block import LLAMA, TextBlock
from mm_api.vllm_classes import vllm_since


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


MOST_RECORDINGS = 8
"""In one request: four minutes of audio where one has half a minute, 15 MB of samples."""


def always(_: JsonObject) -> bool:
    """Return true: the model_type identifies the family."""
    return True


class Kind(StrEnum):
    """How images, or whatever the encoder reads, reach the language model."""

    PROMPT_TABLE = "PromptTable"
    """Features are rows of the prompt table; ids from vocab_size on index them."""
    CROSS_ATTENTION = "CrossAttention"
    """Features are read by cross-attention layers of a decoder (mllama)."""
    ENCODER_DECODER = "EncoderDecoder"
    """Two engines; the encoder reads text or audio."""


@dataclass(frozen=True, slots=True)
class Family:
    """Facts and formulas of one family.

    `default_input_tokens` and `default_output_tokens` are what a request gets when the spec names
    no limit and the checkpoint has positions for them. `template_tokens` is the most that the
    family's own wrapper adds around a prompt. A default is what most have whose language model is a
    decoder of LLaMA's blocks.
    """

    name: str
    title: str
    architectures: tuple[str, ...]
    """Names in config.json."""
    model_type: str | None
    """As in config.json; None: `recognised` alone decides, and precedes every model_type."""
    read: Callable[[JsonObject, JsonObject], Dimensions]
    """Dimensions, from config.json and preprocessor_config.json, which is empty when there is none.
    Raises CheckpointError: a value is missing, of a wrong type
    or out of range, or this variant of the family cannot be served."""
    kind: Kind = Kind.PROMPT_TABLE
    dtypes: tuple[str, ...] = ("bfloat16", "float16")
    """What engines may compute in; the first is what Auto means for TensorRT."""
    dtype_reason: str = "the type of the published checkpoints"
    text: TextBlock = LLAMA
    checkpoint: CheckpointFiles = BESIDE_TOWER
    trtllm: TensorRTLLM = NO_ENGINES
    fused_passes: bool = False
    """On a GPU the Reference engine has passes of its own; none for decoders with a window."""
    default_input_tokens: int = 4096
    default_output_tokens: int = 1024
    template_tokens: int = 16
    recognised: Callable[[JsonObject], bool] = always
    """What a config.json of the model_type must say besides; exactly one family's holds."""
    on_reference: bool = True
    """False: servers of others have it (docs/decisions/20261129-reference-is-small-again.md)."""
    pytorch: PyTorchServing | None = None
    """None: trtllm-serve's PyTorch backend has no class for it."""
    vllm_features: bool = False
    """Features of an image are, row for row, what vLLM keeps of its own tower: disaggregated
    encoders may compute them."""
    vllm_unfit: Callable[[ModelFacts], str | None] = lambda _: None
    """Why vLLM's class answers otherwise than a checkpoint; None: it does not."""
    vllm_videos_since: str | None = None
    """The first vLLM that gives the processor the times of frames; None: it reads none."""
    prompt: PromptStyle | None = None
    """None: the text is the prompt."""
    layout: ImageLayout = SQUARE
    """Means nothing for families without images."""
    reads_images: bool = True
    """False: of decoders beside a tower, one that reads recordings and no images."""
    audio_features: Callable[[int], int] | None = None
    """Tokens that a recording of so many samples becomes; None: conversations hold none."""
    reads_audio: bool = False
    """The encoder reads log-mel spectrograms, not text."""
    default_encoder_tokens: int = 0
    decoder_input_tokens: int = 1
    """Ids that the decoder of an encoder-decoder starts from, at the most."""
    notes: tuple[str, ...] = ()

    @property
    def has_engines(self) -> bool:
        return bool(self.trtllm.converter)

    @property
    def backends(self) -> tuple[str, ...]:
        vllm = vllm_since(self.architectures)
        has: dict[str, object] = {PYTORCH.name: self.pytorch, VLLM.name: vllm}
        return tuple(one for one in sorted(BACKENDS) if self.is_served(one) and has.get(one, True))

    @property
    def chats(self) -> bool:
        return self.kind is not Kind.ENCODER_DECODER

    @property
    def sees(self) -> bool:
        return self.chats and self.reads_images

    @property
    def has_tower(self) -> bool:
        """Return whether images are encoded by themselves, and not by the checkpoint's class."""
        return self.layout.encoder is not None

    def is_served(self, backend: str) -> bool:
        made = self.has_engines or not BACKENDS[backend].builds_engines
        return made and (self.on_reference or backend != REFERENCE.name)

    @property
    def transformers_class(self) -> str:
        return self.checkpoint.loaded_as or self.architectures[0]

    def request_features(self, vision: VisionFacts, images: int, backend: str) -> int:
        """Return the most rows (or encoder tokens) that so many images of one request become."""
        single, several = self.layout.features_per_image(vision), self.layout.features_of_several
        if several is None or not self._reduces(images, backend):
            return images * single
        return max(single, images * several(vision))

    def request_tiles(self, vision: VisionFacts, images: int, backend: str) -> int:
        """Return the most tiles that so many images of one request become."""
        tiles = self.layout.tiles_per_image(vision)
        return max(tiles, images) if self._reduces(images, backend) else images * tiles

    def _reduces(self, images: int, backend: str) -> bool:
        several = images > 1 and self.layout.features_of_several is not None
        return several and not BACKENDS[backend].stages
