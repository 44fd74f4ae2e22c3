"""Where a checkpoint keeps its chat template and the tokens that it names: one search order.

Reads files and renders nothing.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

JINJA_FILE = "chat_template.jinja"

BUILT_IN = "built in for the family"
"""In the place of a file's name."""

NAMED_FOLDER = "additional_chat_templates"
"""Folder of a checkpoint: `NAME.jinja` for each further template. `chat_template.jinja` is the
default."""

LEGACY_FILE = "chat_template.json"
_JSON_FILES = ("processor_config.json", LEGACY_FILE)
"""They win over the file of its own, the tokenizer's comes last: the order of
`ProcessorMixin.get_processor_dict` of transformers 5."""

_TOKENIZER_FILE = "tokenizer_config.json"

_SPECIAL_FILE = "special_tokens_map.json"

_SPECIAL = tuple(f"{name}_token" for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"))
"""Variables of every template: `special_tokens_map` of transformers' tokenizers."""

_DEFAULT = "default"
_FOR_TOOLS = ("tool_use", _DEFAULT)
"""Among several named templates the one that transformers takes by default, and those that its
tokenizers take for conversations with tools."""


@dataclass(frozen=True, slots=True)
class FoundTemplate:
    """A chat template, and the name of the file that has it."""

    source: str
    file: str


def find_chat_template(
    processor: Path, tokenizer: Path | None = None, *, with_tools: bool = False
) -> str | None:
    """Return the source of a checkpoint's chat template, as `locate_chat_template` finds it."""
    found = locate_chat_template(processor, tokenizer, with_tools=with_tools)
    return None if found is None else found.source


def locate_chat_template(
    processor: Path, tokenizer: Path | None = None, *, with_tools: bool = False
) -> FoundTemplate | None:
    """Return a checkpoint's chat template, None where it has none.

    `with_tools`: of a tokenizer's several templates the one for tools, where there is one.
    """
    for name in _JSON_FILES:
        if (found := _in_json(processor / name, _DEFAULT)) is not None:
            return found
    if files := named_files(processor) | _jinja_file(processor):
        return _first(files, _DEFAULT)
    names = _FOR_TOOLS if with_tools else (_DEFAULT,)
    return _in_json((tokenizer or processor) / _TOKENIZER_FILE, *names)


def locate_tools_template(processor: Path, tokenizer: Path | None = None) -> FoundTemplate | None:
    """Return the template that a checkpoint's tokenizer takes for tools, None where it has none.

    `PreTrainedTokenizerBase.get_chat_template` of transformers: a processor's files do not count.
    """
    if files := _jinja_file(processor) | named_files(processor):
        return _first(files, *_FOR_TOOLS)
    return _in_json((tokenizer or processor) / _TOKENIZER_FILE, *_FOR_TOOLS)


def named_files(folder: Path) -> dict[str, Path]:
    return {path.stem: path for path in sorted((folder / NAMED_FOLDER).glob("*.jinja"))}


def _jinja_file(folder: Path) -> dict[str, Path]:
    file = folder / JINJA_FILE
    return {_DEFAULT: file} if file.is_file() else {}


def _first(files: Mapping[str, Path], *names: str) -> FoundTemplate | None:
    file = next((files[one] for one in names if one in files), None)
    return None if file is None else FoundTemplate(file.read_text(encoding="utf-8"), file.name)


DICTIONARY_SIZE = "fairseq_dictionary_size"
"""Key of tokenizer_config.json: tokens from this id on are unknown words to FairSeq."""


def special_tokens(folder: Path) -> dict[str, str]:
    """Return the tokens that templates know by name, of a folder of a tokenizer's files.

    `special_tokens_map.json` counts where `tokenizer_config.json` does not describe the tokens
    itself, as transformers reads the two.
    """
    config = read_object(folder / _TOKENIZER_FILE)
    stated = (
        config if "added_tokens_decoder" in config else config | read_object(folder / _SPECIAL_FILE)
    )
    texts = {
        name: value.get("content") if isinstance(value := stated.get(name), dict) else value
        for name in _SPECIAL
    }
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _in_json(file: Path, *names: str) -> FoundTemplate | None:
    """Return the template of a file; of several the first of some names that is there."""
    value = read_object(file).get("chat_template")
    if isinstance(value, list):
        named = {one.get("name"): one.get("template") for one in value if isinstance(one, dict)}
        value = next((named[one] for one in names if one in named), None)
    return FoundTemplate(value, file.name) if isinstance(value, str) else None


def read_object(file: Path) -> dict[str, Any]:
    """Return a JSON file's object; an empty one where there is no such file."""
    if not file.is_file():
        return {}
    value = json.loads(file.read_text(encoding="utf-8"))
    return value if isinstance(value, dict) else {}
