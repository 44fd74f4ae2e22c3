"""Fit the tokenizer's table, as upstream's script writes it, to the model and to what is sent.

The server's grammar library marks allowed tokens by their place in the table, in a mask as long as
the model's logits: a longer table would be written past its end (Llama 3.2 Vision has a token more
than logits), and a table with gaps would mark other tokens.
"""

import json
import logging
from pathlib import Path

from mm_api.trtllm_layout import TOKENIZER_INFO
from mm_runtime.base.durable import write_durably
from mm_runtime.engine_build.commands.step import StepContext, run_step
from mm_runtime.errors import VerificationFailedError
from mm_runtime.serving.prompts.tokens import TOKENIZER, TextCodec

log = logging.getLogger(__name__)

_LEAVE_OUT = "Set spec.engine.guidedDecoding to Off: the engine is then built without it."


def fit_tokenizer_info(context: StepContext) -> None:
    """Cut the table to the tokens that have logits; refuse one that would mark others."""
    path = context.paths.tokenizer_table / TOKENIZER_INFO
    try:
        table = json.loads(path.read_bytes())
        names, ends = list(table["encoded_vocab"]), list(table["stop_token_ids"])
    except (ValueError, KeyError, TypeError) as error:
        raise VerificationFailedError(
            f"{TOKENIZER_INFO} is no table of a tokenizer ({error!r}). {_LEAVE_OUT}"
        ) from error
    codec = TextCodec(_tokenizer(context))
    size = context.plan.facts.text.vocabulary_size
    for token, name in enumerate(names[:size]):
        if name != codec.name_of(token):
            raise VerificationFailedError(
                f"{TOKENIZER_INFO} has {name!r} at place {token}, where the tokenizer has "
                f"{codec.name_of(token)!r}: other tokens would be allowed. {_LEAVE_OUT}"
            )
    if codec.end_id not in ends:
        raise VerificationFailedError(
            f"{TOKENIZER_INFO} ends answers with {ends}, and requests name {codec.end_id}: an "
            f"answer that is complete would not end. {_LEAVE_OUT}"
        )
    if len(names) > size:
        log.info("left out %d tokens without logits", len(names) - size)
    context.paths.guided.mkdir(exist_ok=True)
    fitted = json.dumps({**table, "encoded_vocab": names[:size]})
    write_durably(context.paths.guided / TOKENIZER_INFO, fitted)


def _tokenizer(context: StepContext) -> Path:
    own = context.paths.checkpoint_tokenizer
    folders = (own, own / "llm", context.paths.tokenizer)
    return next((one for one in folders if (one / TOKENIZER).is_file()), own)


if __name__ == "__main__":
    run_step(fit_tokenizer_info)
