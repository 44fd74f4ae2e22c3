"""Files of a family's checkpoints, and how they are loaded."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from mm_api.documents.model_facts import TextFacts, VisionFacts


class Decoder(StrEnum):
    """Where a checkpoint's class keeps the language model that reads rows of a prompt table."""

    BESIDE_TOWER = "BesideTower"
    """At `model.language_model`, with the head on top."""
    NESTED_MODEL = "NestedModel"
    """At `language_model`, which is a model with decoder and head of its own."""
    FOLDER = "Folder"
    """In a folder of its own, `llm`."""


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """How tokenizer.json, the only one that servers read, is made where a checkpoint has none."""

    bytes_are_tokens: bool = False
    """No file is needed."""
    refusal: str = ""
    """Why it cannot be made, and what to do; empty: of a SentencePiece model."""
    advice: str = (
        "Save the processor with a fast tokenizer beside the weights:"
        " AutoProcessor.from_pretrained(...).save_pretrained(...)."
    )
    """How a user gets one where there is no file to make it of."""


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    """What checkpoints hold beside weights, and who loads them."""

    decoder: Decoder | None = Decoder.BESIDE_TOWER
    """None: images are read by cross attention, or it is an encoder-decoder."""
    tower: str = ""
    """Module that exports the vision half, in `mm_runtime.engine_build.commands.towers`; empty: of
    the family's name."""
    loaded_as: str | None = None
    """Class of transformers; None: the first one of `Family.architectures`."""
    tokenizer: Tokenizer = Tokenizer()
    in_parts: bool = False
    """Checkpoints may be folders, one a part, without an index of all weights."""
    vision_parameters: Callable[[VisionFacts, TextFacts], int] | None = None
    """Weights of tower and projector, where checkpoints have no index with the total."""


BESIDE_TOWER = CheckpointFiles()
NO_DECODER = CheckpointFiles(decoder=None)
