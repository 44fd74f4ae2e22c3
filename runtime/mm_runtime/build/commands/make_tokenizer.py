"""Write `tokenizer.json` for checkpoints that have none: servers read nothing else.

ByT5's tokens are the bytes of a text. SentencePiece models are turned by transformers into what it
uses itself whenever it loads such a checkpoint.
"""

import json
import logging
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from mm_runtime.build.commands.step import StepContext, run_step
from mm_runtime.build.durable import write_durably
from mm_runtime.errors import PermanentError

log = logging.getLogger(__name__)

TOKENIZER = "tokenizer.json"
CONFIG = "tokenizer_config.json"
SPECIAL = ("bos_token", "eos_token", "unk_token", "pad_token")
PARTS = ("", "llm")
"""Where a tokenizer may lie: beside config.json; VILA's with its language model."""

BYTES_SPECIAL = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
"""ByT5's first ids, in their order; a byte's id is its value behind them."""

EXTRA_IDS = 125
"""ByT5's sentinels where tokenizer_config.json does not count them, as transformers has them."""


def make_tokenizer(context: StepContext) -> None:
    """Write the tokenizer's two files; none where the checkpoint has its own."""
    places = context.places
    places.tokenizer.mkdir(parents=True, exist_ok=True)
    folders = [places.read_by_servers / part for part in PARTS]
    if any((folder / TOKENIZER).is_file() for folder in folders):
        log.info("the checkpoint has a %s", TOKENIZER)
        return
    if context.plan.facts.family == "byt5":
        config = _config(folders[0])
        text, special = bytes_tokenizer(int(config.get("extra_ids", EXTRA_IDS))), BYTES_SPECIAL
    else:
        found = [one for folder in folders for one in sorted(folder.glob("*.model"))]
        if not found:
            raise PermanentError(
                f"The checkpoint has neither {TOKENIZER} nor a SentencePiece model: save it with a"
                " fast tokenizer, AutoTokenizer.from_pretrained(...).save_pretrained(...)."
            )
        config = _config(found[0].parent)
        text, special = converted(found[0].parent)
    write_durably(places.tokenizer / TOKENIZER, text)
    write_durably(places.tokenizer / CONFIG, json.dumps({**special, **config}, indent=2))
    log.info("made a %s", TOKENIZER)


def bytes_tokenizer(extra_ids: int) -> str:
    """Return a tokenizer whose tokens are the bytes of a text in UTF-8."""
    first = list(BYTES_SPECIAL.values())
    ids = {token: at for at, token in enumerate(first)}
    ids |= {letter: len(first) + byte for byte, letter in _letters().items()}
    tokenizer = Tokenizer(models.BPE(ids, []))  # without merges every letter stays a token
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([*first, *(f"<extra_id_{at}>" for at in range(extra_ids))])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", ids["</s>"])]
    )
    return str(tokenizer.to_str())


def _letters() -> dict[int, str]:
    """Return byte -> the letter that stands for it inside of byte-level tokenizers.

    Printable bytes of Latin-1 are their own; the others follow in their order from U+0100 on
    (bytes_to_unicode of GPT-2's encoder.py, which all of them keep to).
    """
    own = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(0x100) if byte not in own)
    return {byte: chr(byte) for byte in own} | {
        byte: chr(0x100 + at) for at, byte in enumerate(others)
    }


def converted(folder: Path) -> tuple[str, dict[str, Any]]:
    """Return the tokenizer that transformers makes of a folder, and its special tokens.

    Raises:
        PermanentError: it makes none.
    """
    from transformers import AutoTokenizer  # noqa: PLC0415 (seconds; ByT5 needs none of it)

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, use_fast=True)
        text = tokenizer.backend_tokenizer.to_str()
    except (OSError, ValueError, ImportError, AttributeError) as error:
        raise PermanentError(
            f"transformers makes no fast tokenizer of this checkpoint ({error}): save it with one,"
            " AutoTokenizer.from_pretrained(...).save_pretrained(...)."
        ) from error
    named = {name: getattr(tokenizer, name, None) for name in SPECIAL}
    return text, {name: str(token) for name, token in named.items() if token is not None}


def _config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


if __name__ == "__main__":
    run_step(make_tokenizer)
