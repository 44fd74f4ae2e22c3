"""The tokenizer of a checkpoint, read as servers read it and compared with config.json.

A token without a row in the embedding ends a request in an index error or in another token's row,
and an unknown one is written into the prompt letter by letter.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from mm_api.checkpoint.values import Dimensions
from mm_api.documents.model_facts import InspectReason
from mm_api.families.family import Family
from mm_runtime.base.chat_template_files import DICTIONARY_SIZE, special_tokens
from mm_runtime.errors import InspectRefusedError
from mm_runtime.inspect.small_files import JsonObject, read_optional, read_text
from mm_runtime.inspect.tokenizer_files import CONFIG, TOKENIZER, tokenizer_folder

_PUBLISHED = "Copy the tokenizer's files that were published with the weights."

_VIDEOS = ("video_token_id", "video_token_index")
_MARKS = {
    "vision_start_token_id": "<|vision_start|>",
    "vision_end_token_id": "<|vision_end|>",
    "boi_token_index": "<start_of_image>",
    "eoi_token_index": "<end_of_image>",
}
"""Key of config.json -> the token, of tokenizers that have it."""

_ADDED = re.compile(r'"added_tokens"\s*:\s*(?=\[)')
"""No text within JSON holds this: its quotes would be escaped."""

_STARTS = ("decoder_start_token_id", "forced_bos_token_id")
"""Starts of an encoder-decoder, beside those that end an answer."""


def check_tokenizer(
    source: Path, family: Family, dimensions: Dimensions, config: JsonObject
) -> None:
    """Refuse a tokenizer that servers could not read, or that is another checkpoint's."""
    rows, folder = dimensions.text.vocabulary_size, tokenizer_folder(source)
    generation = read_optional(source / "generation_config.json")
    for name, document in (("config.json", config), ("generation_config.json", generation)):
        _check_ids(name, document, rows)
    if not (folder / TOKENIZER).is_file():
        return  # the build makes it of another file, and compares the two
    tokenizer = _read(folder / TOKENIZER)
    _check_added(folder, tokenizer)
    _check_named(tokenizer, special_tokens(folder), rows)
    if read_optional(folder / CONFIG).get(DICTIONARY_SIZE) != rows:
        _check_rows(tokenizer, rows)
    _check_marks(tokenizer, family, config)
    if dimensions.image_token_id is not None:
        _check_image(tokenizer, family, dimensions.image_token_id)


def _read(path: Path) -> Any:
    text = read_text(path, InspectReason.CONFIG_INVALID)
    try:
        return Tokenizer.from_str(text)
    except Exception as error:
        # The library's Rust code raises bare Exceptions.
        raise _invalid(f"{TOKENIZER} cannot be read: {error}. Copy the file again") from error


def _check_named(tokenizer: Any, named: Mapping[str, str], rows: int) -> None:
    """Refuse named tokens that the tokenizer does not know, or that begin prompts without a row."""
    if "eos_token" not in named:
        raise _invalid(
            f"{CONFIG} names no eos_token, by which answers end; expected a token of {TOKENIZER}."
            f" {_PUBLISHED}"
        )
    for name in ("bos_token", "eos_token", "pad_token"):
        text = named.get(name)
        if text is not None and tokenizer.token_to_id(text) is None:
            raise _invalid(
                f"{CONFIG} {name} is {text!r}, and {TOKENIZER} has no such token: the files are of"
                f" two tokenizers. {_PUBLISHED}"
            )
    first = named.get("bos_token", "")
    if (token := tokenizer.token_to_id(first) or 0) >= rows:
        raise _invalid(
            f"{CONFIG} bos_token is {first!r} with the id {token}, and config.json vocab_size is"
            f" {rows}: prompts that begin with it would have no row in the embedding. {_PUBLISHED}"
        )


def _check_added(folder: Path, tokenizer: Any) -> None:
    """Refuse added tokens that the library would give other ids than their files, in silence."""
    text = read_text(folder / TOKENIZER, InspectReason.CONFIG_INVALID)
    decoder = read_optional(folder / CONFIG).get("added_tokens_decoder")
    # Of tens of megabytes only the list itself becomes objects.
    begin = _ADDED.search(text)
    added = json.JSONDecoder().raw_decode(text, begin.end())[0] if begin else []
    listed = [(TOKENIZER, one["id"], one["content"]) for one in added]
    if isinstance(decoder, dict):
        listed += [
            (CONFIG, int(id_), one["content"])
            for id_, one in decoder.items()
            if id_.isdecimal() and isinstance(one, dict) and isinstance(one.get("content"), str)
        ]
    for file, token, text in listed:
        known, there = tokenizer.token_to_id(text), tokenizer.id_to_token(token)
        if known != token and (file == TOKENIZER or (known, there) != (None, None)):
            raise _invalid(
                f"{file} adds the token {text!r} with the id {token}, and in {TOKENIZER} that id"
                f" is {there!r} and the token has the id {known}. {_PUBLISHED}"
            )


def _check_rows(tokenizer: Any, rows: int) -> None:
    """Refuse texts that would become tokens without a row.

    Special tokens are not looked at: no text of a client may hold one, and published tokenizers
    have more of them than the model has rows (`<|image|>` of Llama 3.2 Vision).
    """
    added = tokenizer.get_added_tokens_decoder()
    special = {token for token, one in added.items() if one.special}
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    token, text = max(
        ((token, text) for text, token in vocabulary.items() if token not in special),
        default=(0, ""),
    )
    if token >= rows:
        raise _invalid(
            f"{TOKENIZER} has the token {text!r} with the id {token}, and config.json vocab_size is"
            f" {rows}: the embedding has no row for it. {_PUBLISHED}"
        )


def _check_image(tokenizer: Any, family: Family, image: int) -> None:
    """Refuse a tokenizer whose token for images is not the one of config.json."""
    found, style = tokenizer.id_to_token(image), family.prompt
    if found is None:
        raise _invalid(
            f"config.json image_token_id is {image}, and {TOKENIZER} has no token with this id:"
            f" images would have no place in prompts. {_PUBLISHED}"
        )
    if style is None or style.splits or not family.has_tower:
        return
    written = style.framed or style.placeholder
    if found not in written:
        known = tokenizer.token_to_id(style.placeholder)
        there = f"has the id {known} there" if known is not None else "is not there"
        raise _invalid(
            f"config.json image_token_id is {image}, which is {found!r} in {TOKENIZER}; images of"
            f" family {family.name} stand in prompts as {written!r}, and {style.placeholder!r}"
            f" {there}. {_PUBLISHED}"
        )


def _check_marks(tokenizer: Any, family: Family, config: JsonObject) -> None:
    """Refuse other ids of a family's marks in config.json: classes place images by them."""
    style = family.prompt
    texts = dict.fromkeys(_VIDEOS, style.video) if style else {}
    if style is not None and style.splits:
        texts["image_token_index"] = style.placeholder
    for key, text in {**texts, **_MARKS}.items():
        stated, expected = config.get(key), tokenizer.token_to_id(text) if text else None
        if type(stated) is int and expected not in {None, stated}:
            raise _invalid(
                f"config.json {key} is {stated}, which is {tokenizer.id_to_token(stated)!r} in"
                f" {TOKENIZER}, and {text!r} has the id {expected} there. {_PUBLISHED}"
            )


def _check_ids(name: str, document: JsonObject, rows: int) -> None:
    """Refuse ids of tokens that are no numbers, or none of which the model can write."""
    for key, value in _stated(document):
        ids = value if isinstance(value, list) else [value]
        if not all(type(one) is int for one in ids):
            raise _invalid(f"{name} {key} is {value!r}; expected the id of a token, or a list")
        if ids and not any(0 <= one < rows for one in ids):
            raise _invalid(
                f"{name} {key} is {value!r}, and the model has {rows} tokens: expected a number"
                f" from 0 to {rows - 1}. Copy the file that was published with the weights"
            )


def _stated(document: JsonObject) -> Iterator[tuple[str, Any]]:
    text = document.get("text_config")
    for prefix, part in (("", document), ("text_config.", text if isinstance(text, dict) else {})):
        for key in ("eos_token_id", *_STARTS):
            if part.get(key) is not None:
                yield prefix + key, part[key]


def _invalid(message: str) -> InspectRefusedError:
    return InspectRefusedError(InspectReason.CONFIG_INVALID, f"{message.rstrip('.')}.")
