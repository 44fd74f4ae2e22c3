"""mBART: BART with a norm after each stack, answering in one fixed language (#encoders)."""

from dataclasses import replace

from mm_api.checkpoint.values import Dimensions, JsonObject, invalid
from mm_api.families import bart
from mm_api.families.checkpoint_files import Tokenizer

FIRST_LANGUAGE = 250_000
"""Ids from here on are language codes: a checkpoint that starts its answers with one, or forces
one, translates into one language."""


def read(config: JsonObject, processor: JsonObject) -> Dimensions:
    """Return decoder and encoder of mBART; CheckpointError: a many-to-many checkpoint."""
    forced, start = config.get("forced_bos_token_id"), config.get("decoder_start_token_id")
    if forced is None and not (isinstance(start, int) and start >= FIRST_LANGUAGE):
        raise invalid(
            "config.json fixes no target language (forced_bos_token_id is absent): many-to-many"
            " mBART is not supported by TensorRT-LLM. Use a many-to-one checkpoint, or set"
            " forced_bos_token_id to the language that the model shall answer in."
        )
    return bart.read(config, processor)


MBART = replace(
    bart.BART,
    name="mbart",
    title="mBART",
    architectures=("MBartForConditionalGeneration",),
    model_type="mbart",
    read=read,
    checkpoint=replace(bart.BART.checkpoint, tokenizer=Tokenizer()),
    text=replace(bart.BART.text, final_norm=True),
    notes=("many-to-many checkpoints are refused: the engine takes no language",),
)
