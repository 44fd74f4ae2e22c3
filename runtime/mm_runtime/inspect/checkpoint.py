"""One checkpoint directory -> `ModelFacts`. The first check that fails gives the message."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mm_api.checkpoint import CheckpointError, Dimensions
from mm_api.checkpoint.parts import JOINED, PROCESSOR, processor_of, with_parts
from mm_api.checkpoint.quantized import HF_QUANT_CONFIG, check_method, stored_quantization
from mm_api.checkpoint.values import check_numbers, stated_dtype
from mm_api.documents.model_facts import (
    InspectReason,
    ModelFacts,
    VisionFacts,
)
from mm_api.families import FAMILIES
from mm_api.families.detection import resolve
from mm_api.families.family import Family
from mm_api.families.processor_files import (
    check_extractor,
    check_joined,
    check_processor,
    check_tower,
)
from mm_api.families.stored_weights import check_stored
from mm_runtime.base.chat_template_files import named_files
from mm_runtime.base.containment import check_contained
from mm_runtime.errors import InspectRefusedError, SourceEscapesError
from mm_runtime.inspect import weights
from mm_runtime.inspect.chat_templates import check_chat_template
from mm_runtime.inspect.small_files import (
    JsonObject,
    check_directory,
    listing,
    read_config,
    read_optional,
    read_text,
)
from mm_runtime.inspect.tokenizer_files import sentence_piece_model
from mm_runtime.inspect.tokenizers_fit import check_tokenizer
from mm_runtime.sources.identity import PARTS, source_digest, source_files

CODE_CONFIGS = (
    "tokenizer_config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "video_preprocessor_config.json",
    "generation_config.json",
)
"""Besides config.json, files that can name Python code of the checkpoint, at its top and in each of
`PARTS`."""

_OBJECTS = (
    *CODE_CONFIGS,
    *("special_tokens_map.json", "added_tokens.json", "chat_template.json", "vocab.json"),
)
_TEXTS = ("tokenizer.json", "chat_template.jinja", "merges.txt")


def check_files(source: Path) -> None:
    """Refuse a checkpoint with a small file that is not what its name says.

    Raises:
        InspectRefusedError: `ConfigInvalid`: truncated, a page of HTML, a pointer of Git LFS, too
            big, not UTF-8, or no object.
    """
    for folder in (source, *(source / part for part in PARTS)):
        for path in _there(folder, _OBJECTS):
            read_optional(path)
        for path in _there(folder, _TEXTS):
            read_text(path, InspectReason.CONFIG_INVALID)
    for path in named_files(source).values():
        read_text(path, InspectReason.CONFIG_INVALID)


def _there(folder: Path, names: tuple[str, ...]) -> Iterator[Path]:
    return (path for name in names if (path := folder / name).is_file())


ADAPTER = "adapter_config.json"


@dataclass(frozen=True, slots=True)
class InspectOptions:
    """What the user allows, and what he says the checkpoint is."""

    family: str | None = None
    allow_pickle: bool = False
    trust_remote_code: bool = False


@dataclass(frozen=True, slots=True)
class Description:
    """What the small files of a checkpoint say; weights are read separately."""

    config: JsonObject
    family: str
    dimensions: Dimensions
    custom_code: bool

    @property
    def architecture(self) -> str:
        names = self.config.get("architectures")
        if isinstance(names, list) and names and isinstance(names[0], str):
            return names[0]
        return "LlavaForConditionalGeneration"  # its class writes this; old files leave it out


def inspect(source: Path, options: InspectOptions) -> ModelFacts:
    """Return the facts of a checkpoint.

    Raises:
        InspectRefusedError: it cannot be served; the message says why and what to do.
        OSError: the disk failed; worth another try.
    """
    with refusing():
        check_contained(source)
        check_directory(source)
        source_files(source)  # whether each may be read at all, before the first one is
        return _inspect(source, options)


@contextmanager
def refusing() -> Iterator[None]:
    """Raise whatever is wrong with a checkpoint as a refusal."""
    try:
        yield
    except SourceEscapesError as escape:
        raise InspectRefusedError(InspectReason.SOURCE_NOT_FOUND, str(escape)) from escape
    except CheckpointError as refused:
        raise InspectRefusedError(refused.reason, refused.message) from refused
    except PermissionError as error:
        # Libraries that save checkpoints give weight files mode 0600.
        raise InspectRefusedError(
            InspectReason.SOURCE_NOT_FOUND,
            f"{error.filename} cannot be read by user {os.getuid()}: make the checkpoint readable"
            " (chmod -R a+rX) or set fsGroup on the volume.",
        ) from error


def describe(source: Path, options: InspectOptions) -> Description:
    """Return what the configurations of a checkpoint say.

    Raises:
        InspectRefusedError: a file is missing or wrong.
        CheckpointError: what the files say cannot be served.
    """
    if (source / ADAPTER).is_file():
        raise InspectRefusedError(
            InspectReason.WEIGHTS_INVALID,
            f"{source} holds {ADAPTER}: it is a LoRA adapter, or has one beside its weights, which"
            " transformers would add to them. Name the base model as spec.model.source and the"
            " adapter in spec.engine.lora, or merge the two and remove the file.",
        )
    config = with_parts(read_config(source), lambda name: read_optional(source / name))
    family = resolve(config, options.family)
    check_method(config, exported=(source / HF_QUANT_CONFIG).is_file())
    custom_code = _custom_code(source, config)
    if custom_code and not options.trust_remote_code:
        raise InspectRefusedError(
            InspectReason.CUSTOM_CODE_REFUSED,
            f"{custom_code} requires running Python code of the checkpoint (auto_map). Set"
            " spec.model.trustRemoteCode: true if you have read that code and trust it.",
        )
    check_files(source)
    preprocessor = processor_of(lambda name: read_optional(source / name))
    check_numbers("config.json", config)
    check_numbers(PROCESSOR, preprocessor)
    dimensions = FAMILIES[family].read(config, preprocessor)
    check_extractor(dimensions.encoder, preprocessor)
    check_tower(FAMILIES[family], dimensions.vision, config, preprocessor)
    _check_images(source, FAMILIES[family], dimensions.vision, preprocessor)
    return Description(config, family, dimensions, custom_code is not None)


def _inspect(source: Path, options: InspectOptions) -> ModelFacts:
    found = describe(source, options)
    config, family, dimensions = found.config, found.family, found.dimensions
    stored = _weights(source, family, config, options)
    if stored.format == "safetensors" and FAMILIES[family].architectures:
        check_stored(
            weights.read_headers(source, stored.files),
            config,
            FAMILIES[family],
            dimensions,
            packed=stored.quantized is not None,
        )
    pieces = sentence_piece_model(source, family)
    check_tokenizer(source, FAMILIES[family], dimensions, config)
    check_chat_template(source, FAMILIES[family], dimensions)
    return ModelFacts(
        family=family,
        architecture=found.architecture,
        dtype=stored.dtype,
        source_digest=source_digest(source),
        weight_format=stored.format,
        weight_bytes=stored.bytes,
        parameters=stored.parameters,
        quantization=stored.quantized
        and stored_quantization(read_optional(source / HF_QUANT_CONFIG), stored.quantized),
        custom_code=found.custom_code,
        image_token_id=dimensions.image_token_id,
        sentence_piece_model=pieces,
        text=dimensions.text,
        vision=dimensions.vision,
        encoder=dimensions.encoder,
        audio=dimensions.audio,
    )


def _check_images(
    source: Path, family: Family, vision: VisionFacts | None, preprocessor: JsonObject
) -> None:
    """Refuse a checkpoint without its image processor, or with that of another one."""
    if vision is not None and not preprocessor:
        raise InspectRefusedError(
            InspectReason.CONFIG_MISSING,
            f"{source} holds neither {PROCESSOR} nor {JOINED} with image_processor, by which images"
            f" become tensors; it holds: {listing(source)}. Copy the file that was published with"
            " the weights.",
        )
    check_processor(family, vision, preprocessor)
    check_joined(family, vision, read_optional(source / JOINED))


def _weights(
    source: Path, family: str, config: JsonObject, options: InspectOptions
) -> weights.Weights:
    dtype, pickles = stated_dtype(config), options.allow_pickle
    if FAMILIES[family].checkpoint.in_parts and (source / PARTS[0]).is_dir():
        return weights.read_parts(source, PARTS, allow_pickle=pickles, config_dtype=dtype)
    return weights.read(source, allow_pickle=pickles, config_dtype=dtype)


def _custom_code(source: Path, config: JsonObject) -> str | None:
    """Return the name of the first file that names code of the checkpoint itself."""
    names = [*CODE_CONFIGS]
    names += [f"{part}/{name}" for part in PARTS for name in ("config.json", *CODE_CONFIGS)]
    documents = {"config.json": config}
    documents |= {name: read_optional(source / name) for name in names}
    return next((name for name, value in documents.items() if value.get("auto_map")), None)
