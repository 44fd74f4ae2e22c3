"""The record that describes a family."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from mm_api.backends import BACKENDS
from mm_api.checkpoint.dimensions import Dimensions
from mm_api.checkpoint.values import JsonObject, invalid
from mm_api.documents.model_facts import ModelFacts, TextFacts, VisionFacts
from mm_api.families.image_layouts.layout import ImageLayout
from mm_api.families.image_layouts.square import SQUARE
from mm_api.families.layouts import OtherLayout, added_token
from mm_api.families.prompt import PromptStyle

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


class Decoder(StrEnum):
    """Where a checkpoint's class keeps the language model that reads rows of a prompt table."""

    BESIDE_TOWER = "BesideTower"
    """At `model.language_model`, with the head on top."""
    TEXT_MODEL = "TextModel"
    """At `model.text_model`, with the head on top."""
    NESTED_MODEL = "NestedModel"
    """At `language_model`, which is a model with decoder and head of its own."""
    COMPLETE = "Complete"
    """The class is that of the language model alone, with its head on top; the checkpoint has the
    tower's weights beside it."""
    FOLDER = "Folder"
    """In a folder of its own, `llm`."""


@dataclass(frozen=True, slots=True)
class BlockStyle:
    """Which weights a transformer block of the family has."""

    gated: bool = False
    qkv_bias: bool = False
    key_bias: bool = True
    """Whisper alone has biases of queries and values but none of keys."""
    dense_bias: bool = False
    mlp_bias: bool = False
    norm_vectors: int = 1
    """Vectors of a norm: 1 RMSNorm, 2 LayerNorm."""
    norms: int = 2
    """In a block without cross attention."""
    head_norms: bool = False
    """Queries and keys of a head have a norm each."""


@dataclass(frozen=True, slots=True)
class Embeddings:
    """What stands around the blocks."""

    position_offset: int | None = None
    """Rows beyond the positions of a learned table; None: rotary, relative or sinusoidal."""
    embedding_norm: bool = False
    final_norm: bool = True
    relative_buckets: bool = False
    """T5: a table of 32 buckets x heads in the first block of each stack."""
    extra_rows: int = 0
    """Rows of the embedding beyond vocab_size (mllama: 8)."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Checkpoints of a family that its converter does not read."""

    code: str
    """Error code in the plan."""
    applies: Callable[[ModelFacts], bool]
    message: str


@dataclass(frozen=True, slots=True)
class Recipe:
    """How upstream builds the family (#commands, #encoders)."""

    converter: str
    """Folder of convert_checkpoint.py: llama, qwen, mllama, opt, enc_dec, whisper."""
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
    """The converter loads `model.pt` or `<size>.pt` and knows no other format."""
    refusals: tuple[Refusal, ...] = ()


NO_ENGINES = Recipe(converter="")
"""Recipe of families that upstream has no converter or no vision builder for."""


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """How tokenizer.json, the only one that servers read, is made where a checkpoint has none."""

    bytes_are_tokens: bool = False
    """No file is needed."""
    byte_pairs: bool = False
    """The tokenizer has vocab.json and merges.txt. Other families with such files split texts by
    own rules."""
    refusal: str = ""
    """Why it cannot be made, and what to do; empty: of a SentencePiece model."""
    advice: str = (
        "Save the processor with a fast tokenizer beside the weights:"
        " AutoProcessor.from_pretrained(...).save_pretrained(...)."
    )
    """How a user gets one where there is no file to make it of."""


ENSEMBLE = ("ensemble", "preprocessing", "multimodal_encoders", "tensorrt_llm", "postprocessing")
IMAGE_TENSORS = ("text_input", "max_tokens", "image_input")
BYTES_TENSORS = ("text_input", "max_tokens", "image_bytes_input", "image_url_input")


@dataclass(frozen=True, slots=True)
class Serving:
    """What Triton's repository of the family holds."""

    models: tuple[str, ...] = ENSEMBLE
    client_tensors: tuple[str, ...] = BYTES_TENSORS
    prompt_template: str = "the checkpoint's chat template"


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
    """In one request; None: as many as upstream's models of Triton take (`Family.max_images`)."""
    quantizations: tuple[str, ...] = ()
    """What mm_runtime.quantization writes and get_quant_method of
    tensorrt_llm/_torch/modules/linear.py loads. AWQ searches its scales layer by layer, for which a
    CPU takes days."""
    options: Mapping[str, bool | str] = field(default_factory=dict)
    """Options in trtllm-serve's file, which it needs for images."""
    since: str | None = None
    """First TensorRT-LLM that is documented to have the class; None: all that are planned for."""
    adapters_since: str | None = None
    """First TensorRT-LLM whose class passes `lora_params` on to its language model. None: its
    forward() drops them, and answers are the checkpoint's own without an error."""
    joins_messages: bool = False
    """The server writes the texts of all messages as one message of the user's, without anything
    between them: its list HF_CHAT_TEMPLATE_EXCEPTIONS (tensorrt_llm/inputs/utils.py)."""
    folder_words: tuple[str, ...] = ()
    """Words in the path of the checkpoint by which the server would choose another conversation."""
    videos_since: str | None = None
    """First TensorRT-LLM that reads a video from the request itself, keeps every frame of it where
    its options say so, and gives a video of one frame the features of that image. None: no version
    does (#pytorch)."""
    videos_missing: str = ""
    """Why; empty: its class reads no videos."""
    prompt: PromptStyle | None = None
    """How the server writes prompts; None: as the family does."""


@dataclass(frozen=True, slots=True)
class OwnAdapters:
    """Folders of the LoRA adapters that checkpoints bring along, by what a request holds."""

    images: str
    """Also where recordings stand beside them."""
    recordings: str
    modules: Callable[[TextFacts], Mapping[str, tuple[int, int]]]
    """Those that each of them changes in a layer, with the sizes of input and output."""

    def parameters(self, text: TextFacts, rank: int) -> int:
        """Return the numbers of an adapter of a rank."""
        return text.layers * rank * sum(map(sum, self.modules(text).values()))

    @property
    def folders(self) -> tuple[str, ...]:
        """Return all of them."""
        return (self.images, self.recordings)

    def chosen(self, *, images: bool, recordings: bool) -> int | None:
        """Return the place of a request's adapter in `folders`; None: its text needs none."""
        if images:
            return 0
        return 1 if recordings else None


@dataclass(frozen=True, slots=True)
class Unserved:
    """Why some backends do not serve a family, although its engines can be built."""

    what: str
    """The family in a sentence: "... is not supported"."""
    instead: str
    """Why it is not built in the cluster, and what to do."""
    backends: tuple[str, ...] = tuple(BACKENDS)


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
    """Dimensions, from config.json (FairSeq: the args namespace) and preprocessor_config.json,
    which is empty when there is none. Raises CheckpointError: a value is missing, of a wrong type
    or out of range, or this variant of the family cannot be served."""
    kind: Kind = Kind.PROMPT_TABLE
    dtypes: tuple[str, ...] = ("bfloat16", "float16")
    """What engines may compute in; the first is what Auto means for TensorRT."""
    dtype_reason: str = "the type of the published checkpoints"
    style: BlockStyle = BlockStyle(gated=True)
    embeddings: Embeddings = Embeddings()
    recipe: Recipe = NO_ENGINES
    serving: Serving = Serving()
    default_input_tokens: int = 4096
    default_output_tokens: int = 1024
    template_tokens: int = 16
    recognised: Callable[[JsonObject], bool] = always
    """What a config.json of the model_type must say besides; exactly one family's holds."""
    other_layout: OtherLayout | None = None
    """Layout of checkpoints with code of their own, which the Reference engine reads without it."""
    unserved: Unserved | None = None
    """None: the Reference engine and TensorRT engines in Triton serve it."""
    engines_since: str | None = None
    """First TensorRT-LLM whose backend in Triton is known to take what the family needs; None:
    every version that is planned for."""
    pytorch: PyTorchServing | None = None
    """None: trtllm-serve's PyTorch backend has no class for it."""
    prompt: PromptStyle | None = None
    """None: the text is the prompt."""
    layout: ImageLayout = SQUARE
    """Means nothing for families without images."""
    decoder: Decoder | None = None
    """None: images are read by cross attention, or it is an encoder-decoder."""
    loaded_as: str | None = None
    """Class of transformers; None: the first one of `architectures`."""
    reads_images: bool = True
    """False: of decoders beside a tower, one that reads recordings and no images."""
    audio_features: Callable[[int], int] | None = None
    """Tokens that a recording of so many samples becomes; None: conversations hold none."""
    reads_audio: bool = False
    """The encoder reads log-mel spectrograms, not text."""
    tokenizer: Tokenizer = Tokenizer()
    in_parts: bool = False
    """Checkpoints may be folders, one a part, without an index of all weights."""
    own_adapters: OwnAdapters | None = None
    """None: checkpoints have none."""
    adapters: bool = False
    """The runtime's layout of adapters names the family's modules (LLaMA's and BART's)."""
    joined_matrices: bool = False
    """Its decoder has qkv_proj and gate_up_proj, which the layout of a spec's adapters does not."""
    published_pickled: bool = False
    """Its checkpoints are pickles and nothing else."""
    mutual_images: bool = False
    """Tokens of an image read later ones of the same image: a step reads it all or not at all."""
    long_rotation: bool = False
    """Requests that may pass `original_max_position_embeddings` have other rotations (LongRoPE)."""
    fused_passes: bool = False
    """On a GPU the Reference engine has passes of its own; none for decoders with a window."""
    max_images: int = 64
    """Images in one request that upstream's models can serve."""
    max_images_reason: str = ""
    most_images: Callable[[VisionFacts], int | None] = lambda _: None
    """The same where it follows from the checkpoint; None: `max_images`."""
    default_encoder_tokens: int = 0
    decoder_input_tokens: int = 1
    """Ids that the decoder of an encoder-decoder starts from, at the most."""
    tensor_parallel: bool = True
    """The converter has --tp_size."""
    pipeline_parallel: bool = False
    """The converter has --pp_size, and what the encoder made is read by the first stage alone."""
    quantizations: tuple[str, ...] = ()
    video_upstream: bool = True
    """Upstream's models take the family's videos too."""
    vision_parameters: Callable[[VisionFacts, TextFacts], int] | None = None
    """Weights of tower and projector, where checkpoints have no index with the total."""
    notes: tuple[str, ...] = ()
    engine_notes: tuple[str, ...] = ()
    """For TensorRT engines only."""

    @property
    def has_engines(self) -> bool:
        """Return whether upstream builds TensorRT engines of the family."""
        return self.recipe is not NO_ENGINES

    @property
    def backends(self) -> tuple[str, ...]:
        """Return those that serve it."""
        found = (BACKENDS[one] for one in sorted(BACKENDS) if self.is_served(one))
        return tuple(one.name for one in found if self.pytorch or not one.stages)

    def encodes_at_once(self, backend: str) -> bool:
        """Return whether one pass of the tower reads all images of a request."""
        return not self.has_tower or (self.layout.one_pass and BACKENDS[backend].stages)

    @property
    def sees(self) -> bool:
        """Return whether its checkpoints have a vision tower beside a decoder."""
        return self.kind is not Kind.ENCODER_DECODER and self.reads_images

    @property
    def has_tower(self) -> bool:
        """Return whether images are encoded by themselves, and not by the checkpoint's class."""
        return self.layout.encoder is not None

    def layout_of(self, config: JsonObject) -> OtherLayout | None:
        """Return the layout of a checkpoint by its config.json; None: that of the class."""
        other = self.other_layout
        kind = config.get("model_type")
        return other if other is not None and other.model_type == kind else None

    def dimensions(
        self, config: JsonObject, processor: JsonObject, tokenizer: Mapping[str, JsonObject]
    ) -> Dimensions:
        """Return the parts of a checkpoint in any of the family's layouts.

        `processor`: preprocessor_config.json; empty: there is none. `tokenizer`: the files of
        `TOKENIZER_FILES` by name, which another layout needs.

        Raises:
            CheckpointError: as `read`.
        """
        layout = self.layout_of(config)
        if layout is None:
            return self.read(config, processor)
        translated, settings = layout.config(config), layout.processor(config, processor)
        if layout.image_token is None:
            return self.read(translated, settings)
        token = added_token(layout.image_token, tokenizer)
        if token is None:
            raise invalid(
                f"no file of the tokenizer has the token {layout.image_token}, which stands for"
                f" features of images: {', '.join(tokenizer)} were read. Copy the tokenizer again"
            )
        return self.read(translated | {"image_token_id": token}, settings)

    def is_served(self, backend: str) -> bool:
        """Return whether the family is served where its engines can be built."""
        made = self.has_engines or not BACKENDS[backend].builds_engines
        return made and (self.unserved is None or backend not in self.unserved.backends)

    @property
    def transformers_class(self) -> str:
        """Return the class of transformers that loads a checkpoint."""
        return self.loaded_as or self.architectures[0]

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
