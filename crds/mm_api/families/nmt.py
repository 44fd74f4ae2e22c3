"""FairSeq's transformer in transformers' layout (FSMT): sinusoidal positions (#encoders)."""

from dataclasses import replace

from mm_api.checkpoint.values import Dimensions, JsonObject
from mm_api.families import bart
from mm_api.families.checkpoint_files import Tokenizer


def read(config: JsonObject, processor: JsonObject) -> Dimensions:
    return bart.read(config | {"vocab_size": config.get("tgt_vocab_size")}, processor)


NMT = replace(
    bart.BART,
    name="nmt",
    title="FairSeq NMT",
    architectures=("FSMTForConditionalGeneration",),
    model_type="fsmt",
    read=read,
    checkpoint=replace(
        bart.BART.checkpoint,
        tokenizer=Tokenizer(
            refusal="Name FairSeq's archive as spec.model.source.archive, of which it is made, or"
            " add one: dictionaries stand for words that Moses and BPE codes have made."
        ),
    ),
    dtypes=("float32", "float16", "bfloat16"),
    dtype_reason="upstream's example is float32",
    text=replace(bart.BART.text, position_offset=None, embedding_norm=False, adapters=False),
    decoder_input_tokens=1,
    trtllm=replace(bart.BART.trtllm, converter=""),
    notes=("FairSeq's archive is converted: docs/decisions/20261130-fairseq-is-converted.md",),
)
