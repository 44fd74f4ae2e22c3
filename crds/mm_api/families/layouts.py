"""Another layout of a family's checkpoints: names and settings as transformers' class has them.

Some models were published with Python code of their own before transformers had a class of them.
Where the class computes the same, such a checkpoint is read as if it were the class's: nothing of
its code is run.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mm_api.checkpoint.values import JsonObject

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class JoinedWeights:
    """One weight of a checkpoint that transformers' class has in equal parts, one after another."""

    name: str
    """Part of the name, after `OtherLayout.names`."""
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OtherLayout:
    """How checkpoints of one model_type are read as those of a family."""

    model_type: str
    config: Callable[[JsonObject], JsonObject]
    """config.json as the class has it, without the token of images. Raises CheckpointError: a
    value is wrong, or this variant cannot be served."""

    image_token: str | None
    """Added to the tokenizer: config.json does not have its id. None: no token stands for features
    of images."""

    processor: Callable[[JsonObject, JsonObject], JsonObject]
    """preprocessor_config.json as the class's processor has it, of config.json and of the
    checkpoint's own file, which is empty where there is none."""

    chat: Callable[[JsonObject], str]
    """Template of conversations, of config.json: the tokenizer's is that of the language model
    alone."""

    end_token: str
    """Ends an answer, beside what the checkpoint's files say."""

    names: tuple[tuple[str, str], ...]
    """Regular expressions of weights' names and what they become, one after another."""

    joined: tuple[JoinedWeights, ...]

    beside: tuple[str, ...] = ()
    """Regular expressions of weights that the class has no module for: they are read elsewhere."""

    shapes_beside: Callable[[JsonObject], Shapes] | None = None
    """Each weight of `beside`, under its own name; None: the class has all."""


def added_token(name: str, documents: Mapping[str, JsonObject]) -> int | None:
    """Return the id of a token that was added to a tokenizer, None where no file has it.

    `documents`: a tokenizer's JSON files by name; those that are missing are left out or empty.
    """
    listed = documents.get("tokenizer.json", {}).get("added_tokens")
    for one in listed if isinstance(listed, list) else []:
        if isinstance(one, dict) and one.get("content") == name and isinstance(one.get("id"), int):
            return int(one["id"])
    decoder = documents.get("tokenizer_config.json", {}).get("added_tokens_decoder")
    for key, one in (decoder if isinstance(decoder, dict) else {}).items():
        if isinstance(one, dict) and one.get("content") == name and key.isdigit():
            return int(key)
    found = documents.get("added_tokens.json", {}).get(name)
    return found if isinstance(found, int) else None


TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "added_tokens.json")
"""Files in which `added_token` looks."""
