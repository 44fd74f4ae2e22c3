"""Write the `tokenizer.json` that a checkpoint does not have: servers read nothing else.

ByT5's tokens are a text's bytes; the others that have none have a SentencePiece model.
"""

import json
import logging
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from mm_runtime.base.durable import write_durably
from mm_runtime.engine_build.commands.step import StepContext, run_step
from mm_runtime.errors import PermanentError
from mm_runtime.images.processor_config import read_json
from mm_runtime.serving.prompts.byte_letters import byte_letters

log = logging.getLogger(__name__)

TOKENIZER = "tokenizer.json"
CONFIG = "tokenizer_config.json"

BYTES_SPECIAL = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
"""ByT5's first ids, in their order; a byte's id is its value behind them."""

EXTRA_IDS = 125
"""ByT5's sentinels where tokenizer_config.json does not count them, as transformers has them."""


def make_tokenizer(context: StepContext) -> None:
    """Write the tokenizer's two files; none where the checkpoint has its own."""
    own, target = context.paths.checkpoint_tokenizer, context.paths.tokenizer
    target.mkdir(parents=True, exist_ok=True)
    if (own / TOKENIZER).is_file():
        log.info("the checkpoint has a %s", TOKENIZER)
        return
    facts = context.plan.facts
    if facts.sentence_piece_model:
        text, config = _converted(context, facts.sentence_piece_model)
    else:
        config = read_json(own / CONFIG)
        text = bytes_tokenizer(int(config.get("extra_ids", EXTRA_IDS)))
        config = {**BYTES_SPECIAL, **config}
    write_durably(target / TOKENIZER, text)
    write_durably(target / CONFIG, json.dumps(config, indent=2))
    log.info("made a %s", TOKENIZER)


def _converted(context: StepContext, named: str) -> tuple[str, dict[str, Any]]:
    """Return tokenizer.json and tokenizer_config.json of a SentencePiece model of the checkpoint.

    `named`: its file, relative to the checkpoint.
    """
    try:
        # Torch and sentencepiece, which ByT5 does not need.
        from mm_runtime.engine_build.commands.sentence_pieces import converted  # noqa: PLC0415
    except ImportError as error:
        raise PermanentError(
            f"The image has no {error.name}, which makes tokenizer.json of {named}: use a"
            " builder's image that has it, or save a fast tokenizer beside that file."
        ) from error
    model = context.paths.checkpoint_tokenizer / named
    weights = context.paths.weights / named
    text, special = converted(model, weights.parent / "config.json")
    return text, {**read_json(model.parent / CONFIG), **special}


def bytes_tokenizer(extra_ids: int) -> str:
    """Return a tokenizer whose tokens are the bytes of a text in UTF-8."""
    first = list(BYTES_SPECIAL.values())
    ids = {token: at for at, token in enumerate(first)}
    ids |= {letter: len(first) + byte for byte, letter in byte_letters().items()}
    tokenizer = Tokenizer(models.BPE(ids, []))  # without merges every letter stays a token
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([*first, *(f"<extra_id_{at}>" for at in range(extra_ids))])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", ids["</s>"])]
    )
    return str(tokenizer.to_str())


if __name__ == "__main__":
    run_step(make_tokenizer)
