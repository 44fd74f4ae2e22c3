"""ByT5: tokens are bytes, so sequences are long; the encoder is deeper than the decoder."""

from dataclasses import replace

from mm_api.families.checkpoint_files import Tokenizer
from mm_api.families.flan_t5 import FLAN_T5
from mm_api.families.t5 import reads_bytes

BYT5 = replace(
    FLAN_T5,
    name="byt5",
    title="ByT5",
    recognised=reads_bytes,
    checkpoint=replace(FLAN_T5.checkpoint, tokenizer=Tokenizer(bytes_are_tokens=True)),
    dtype_reason="ByT5 was trained in bfloat16 and overflows float16",
    default_encoder_tokens=2048,  # bytes: about a quarter as many words as tokens of T5
    default_output_tokens=512,
)
