"""What makes and judges a `tokenizer.json`: transformers makes it, sample texts are split twice.

Images hold different versions of transformers, and some convert otherwise than the library that a
checkpoint's own files are of. So the tokenizers made here split the samples by both.
"""

import json
import shutil
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from transformers import AutoTokenizer

from mm_runtime.errors import PermanentError

CONFIG = "tokenizer_config.json"

SAMPLES = (
    *("hello world", "", "line\nline\ttab", "two  spaces", "Grüße, 3 €", "naïve café"),
    *("日本語のテキスト", "안녕하세요", "Привет, мир!", "مرحبا بالعالم", "नमस्ते दुनिया"),
    *("ﬁne \uff46\uff55\uff4c\uff4c\u3000\uff57ide", "½ ² ™ …", "1,234.56", "\U0001f600 ok"),
    "\x00\x7f\x80",
)
"""Scripts of their own, and what normalization changes. None begins or ends with a space: LLaMA's
rule for those differs between versions of transformers itself."""


def made_by_transformers(model: Path, config: Path, *others: str) -> Any:
    """Return the tokenizer that transformers makes of a checkpoint's own files.

    `config`: config.json, which names the class where tokenizer_config.json does not. `others`:
    names of files beside `model` that belong to it and are no JSON.

    Raises:
        PermanentError: transformers makes none.
    """
    with TemporaryDirectory() as folder:
        paths = (*model.parent.glob("*.json"), model, *(model.parent / name for name in others))
        beside = {path.name: path for path in paths}
        # Of a multimodal model it makes transformers 5 leave the named class aside.
        beside.pop(config.name, None)
        if not _names_class(model.parent / CONFIG) and config.is_file():
            beside[config.name] = config
        for name, path in beside.items():
            shutil.copyfile(path, Path(folder) / name)
        try:
            return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        except Exception as error:
            # Its own errors (KeyError, OSError, ValueError ...), and those of tokenizers, whose
            # Rust code raises bare Exceptions.
            raise PermanentError(
                f"transformers {version('transformers')} makes no tokenizer of {model.name}:"
                f" {error}. {advice(model)}"
            ) from error


def split_otherwise(model: Path, text: str, found: object, by: str, expected: object) -> Exception:
    """Return the refusal of a tokenizer that splits a text in another way than it should."""
    return PermanentError(
        f"transformers {version('transformers')} makes a tokenizer of {model.name} that splits"
        f" {text!r} into {found}; {by} splits it into {expected}. {advice(model)}"
    )


def advice(model: Path) -> str:
    """Return what a person can do where no conversion is right."""
    return (
        f"Save a fast tokenizer beside {model.name}:"
        " AutoTokenizer.from_pretrained(...).save_pretrained(...)."
    )


def special_tokens(made: Any) -> dict[str, Any]:
    """Return the tokens with names (`eos_token`); lists of others are in tokenizer.json."""
    found = made.special_tokens_map
    return {name: str(token) for name, token in found.items() if not isinstance(token, list)}


def _names_class(path: Path) -> bool:
    return path.is_file() and "tokenizer_class" in json.loads(path.read_text(encoding="utf-8"))
