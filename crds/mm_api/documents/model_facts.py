"""What is known about a checkpoint after reading only its small files.

Written by the inspect Job as its termination message (Kubernetes keeps 4,096 bytes of it), read by
the planner. So a plan exists before any GPU is requested.
"""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from mm_api.base import Document

MESSAGE_LIMIT_BYTES = 4096
"""What the kubelet keeps of a termination message (measured: exactly 4,096 bytes)."""


class ExpertFacts(Document):
    """Layers in which each token is read by a few of many perceptrons, its experts."""

    count: int = Field(ge=1, description="Of a layer, those that are chosen among.")
    size: int = Field(ge=1, description="Inner width of each.")
    layers: int = Field(ge=0, description="That have experts; the others have one perceptron.")
    of_a_token: int = Field(ge=1, description="Experts that read it.")
    shared_size: int | None = Field(
        default=None, ge=1, description="Inner width of one beside them that reads every token."
    )
    dense_size: int = Field(ge=1, description="Inner width of the layers without experts.")


class TextFacts(Document):
    """Dimensions of the language model, or of an encoder-decoder's decoder."""

    hidden_size: int = Field(ge=1)
    intermediate_size: int = Field(ge=1)
    layers: int = Field(ge=1)
    attention_heads: int = Field(ge=1)
    key_value_heads: int = Field(ge=1)
    head_size: int = Field(ge=1)
    vocabulary_size: int = Field(ge=1)
    max_position_embeddings: int = Field(ge=1)
    experts: ExpertFacts | None = Field(
        default=None, description="None: every layer has one perceptron."
    )
    gated_mlp: bool | None = Field(
        default=None,
        description="The perceptron has a third matrix, its gate. None: as the family has it.",
    )
    tied_embeddings: bool | None = Field(
        default=None,
        description="The checkpoint stores embedding and output matrix once. None: twice.",
    )
    sliding_window: int | None = Field(
        default=None,
        ge=1,
        description="Positions that some layers attend to. None: all layers attend to all.",
    )
    cross_attention_layers: int | None = Field(
        default=None,
        ge=0,
        description="Of `layers`, those that attend to the encoder only (mllama); None: 0.",
    )


class EncoderFacts(Document):
    """Dimensions of an encoder-decoder's encoder; `TextFacts` describes the decoder."""

    hidden_size: int = Field(ge=1)
    intermediate_size: int = Field(ge=1)
    layers: int = Field(ge=1)
    attention_heads: int = Field(ge=1)
    head_size: int = Field(ge=1)
    max_positions: int | None = Field(
        default=None, ge=1, description="Longest input in tokens. None: positions are relative."
    )
    mel_bins: int | None = Field(default=None, ge=1, description="Audio only: rows of the input.")


class VisionFacts(Document):
    """Dimensions of the vision tower and how many features one image becomes."""

    hidden_size: int = Field(ge=1)
    layers: int = Field(ge=1)
    image_size: int = Field(
        ge=1,
        description="Pixels of the square input's side: of one tile where images are tiled, of "
        "the largest square where their size is free.",
    )
    patch_size: int = Field(ge=1, description="Pixels of a patch's side.")
    features_per_image: int = Field(ge=1, description="Rows of the prompt table for one image.")
    feature_layer: int = Field(
        default=-1, description="Hidden state that is used; negative counts from the end."
    )
    feature_select: Literal["default", "full"] = "full"
    intermediate_size: int | None = Field(default=None, ge=1)
    attention_heads: int | None = Field(default=None, ge=1)
    query_tokens: int | None = Field(
        default=None, ge=1, description="BLIP-2: queries of the Q-Former, one feature each."
    )
    longest_side: int | None = Field(
        default=None, ge=1, description="Pixels that the longer side of an image is scaled to."
    )
    max_tiles: int | None = Field(
        default=None, ge=1, description="Tiles of one image at most, its thumbnail included."
    )
    min_tiles: int | None = Field(
        default=None, ge=1, description="Tiles of one image at least, its thumbnail left out."
    )
    grid_pinpoints: list[tuple[int, int]] | None = Field(
        default=None, description="Heights and widths of the grids of tiles that images become."
    )
    grid_limit: int | None = Field(
        default=None,
        ge=1,
        description="Tiles above which a grid is scaled down, n of anyres_max_n. None: never.",
    )
    merge_size: int | None = Field(
        default=None, ge=1, description="Patches a side that become one feature."
    )
    min_pixels: int | None = Field(default=None, ge=1)
    max_pixels: int | None = Field(default=None, ge=1)
    stacked_features: int | None = Field(
        default=None,
        ge=1,
        description="Features of a row beyond the one that is embedded, added to the output of as "
        "many first layers of the language model.",
    )
    tokens_per_second: int | None = Field(
        default=None,
        ge=1,
        description="Positions that a second of video moves on. None: every two frames one.",
    )


class AudioFacts(Document):
    """Dimensions of the tower that reads recordings of conversations, beside a decoder."""

    hidden_size: int = Field(ge=1)
    layers: int = Field(ge=1)
    attention_heads: int = Field(ge=1)
    positions: int = Field(ge=1, description="Of a recording, those that see each other.")
    least_samples: int = Field(ge=1, description="Of a recording that the class reads.")
    most_samples: int = Field(
        ge=1,
        description="Of a recording, at 16,000 a second: the checkpoint's own processor would cut "
        "a longer one.",
    )


class AdapterFacts(Document):
    """One LoRA adapter of the spec."""

    name: str
    source_digest: str = Field(
        pattern=r"^sha256:[0-9a-f]{64}$", description="Identity of its files, unpacked."
    )


class LoraFacts(Document):
    """What engines must be built for, so that every adapter of the spec can be applied."""

    adapters: list[AdapterFacts] = Field(min_length=1, description="In the order of the spec.")
    modules: dict[str, list[str]] = Field(
        description="Engine (llm, encoder, decoder) -> modules that an adapter changes, sorted, by "
        "TensorRT-LLM's names."
    )
    rank: int = Field(ge=1, description="The highest of any adapter.")


class StoredQuantization(Document):
    """How Model-Optimizer quantized the weights before the checkpoint was published."""

    weights: Literal["FP8", "NVFP4"] = Field(description="`quant_algo` of hf_quant_config.json.")
    kv_cache: Literal["FP8"] | None = Field(
        default=None, description="`kv_cache_quant_algo` of the same file. None: as the model's."
    )
    quantized_parameters: int = Field(
        ge=1, description="Of `parameters`, those that are stored so; others keep `dtype`."
    )


class ModelFacts(Document):
    """Family, dimensions, dtypes and sizes of one checkpoint."""

    format_version: Literal[1] = 1
    family: str
    architecture: str = Field(description="`architectures[0]` of config.json.")
    dtype: str = Field(description="Stored dtype, for example float16.")
    source_digest: str = Field(
        pattern=r"^sha256:[0-9a-f]{64}$",
        description="Identity of the checkpoint's files; see mm_runtime.sources.identity.",
    )
    source_revision: str | None = Field(
        default=None,
        pattern=r"^[0-9a-f]{40}$",
        description="Commit that the revision stood for when it was inspected (Hugging Face); the "
        "build fetches that one.",
    )
    weight_format: Literal["safetensors", "pickle"]
    weight_bytes: int = Field(ge=1, description="Bytes of all weight files.")
    parameters: int = Field(ge=1, description="Number of weights, from the safetensors headers.")
    quantization: StoredQuantization | None = Field(
        default=None, description="None: weights are stored as the model computes."
    )
    custom_code: bool = Field(description="config.json names Python code of the checkpoint itself.")
    image_token_id: int | None = None
    sentence_piece_model: str | None = Field(
        default=None,
        description="File of the checkpoint that the build makes tokenizer.json of. None: the "
        "checkpoint has that file, or its family needs none.",
    )
    text: TextFacts
    vision: VisionFacts | None = None
    encoder: EncoderFacts | None = None
    audio: AudioFacts | None = None
    lora: LoraFacts | None = Field(default=None, description="None: no adapters were requested.")
    uncompared: str | None = Field(
        default=None,
        description="Why weights and config.json were not compared with the checkpoint's class, "
        "and what does it. None: they were.",
    )

    @property
    def row_size(self) -> int:
        """Return the values of a row of the prompt table."""
        stacked = self.vision.stacked_features if self.vision else None
        return self.text.hidden_size * (1 + (stacked or 0))


class InspectReason(StrEnum):
    """Why a checkpoint was refused. Each becomes the reason of the condition `Planned`."""

    SOURCE_NOT_FOUND = "SourceNotFound"
    SOURCE_DENIED = "SourceDenied"
    SOURCE_UNTRUSTED = "SourceUntrusted"
    SOURCE_UNAVAILABLE = "SourceUnavailable"
    CONFIG_MISSING = "ConfigMissing"
    CONFIG_INVALID = "ConfigInvalid"
    UNKNOWN_FAMILY = "UnknownFamily"
    FAMILY_MISMATCH = "FamilyMismatch"
    WEIGHTS_MISSING = "WeightsMissing"
    WEIGHTS_INVALID = "WeightsInvalid"
    PICKLE_REFUSED = "PickleRefused"
    CUSTOM_CODE_REFUSED = "CustomCodeRefused"
    ADAPTER_REFUSED = "AdapterRefused"
    IMAGE_NOT_USABLE = "ImageNotUsable"


class InspectError(Document):
    """A refusal: what is wrong, what was expected, what to do."""

    reason: InspectReason
    message: str


class InspectResult(Document):
    """Termination message of the inspect Job: exactly one of the two."""

    facts: ModelFacts | None = None
    error: InspectError | None = None
