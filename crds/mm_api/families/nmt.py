"""FairSeq's transformer: sinusoidal positions, padding kept, no GEMM plugin (#encoders)."""

from dataclasses import replace

from mm_api.backends import TENSORRT
from mm_api.checkpoint.dimensions import Dimensions
from mm_api.checkpoint.values import JsonObject, Sizes
from mm_api.families import bart
from mm_api.families.backend_parts import Refusal, Unserved
from mm_api.families.checkpoint_files import Tokenizer

_FLAGS = (
    ("moe_plugin", "disable"),
    ("bert_attention_plugin", "{dtype}"),
    ("gpt_attention_plugin", "{dtype}"),
    ("remove_input_padding", "disable"),
)


def read(config: JsonObject, processor: JsonObject) -> Dimensions:
    """Return decoder and encoder of FairSeq's transformer, of its args or of transformers' FSMT."""
    if config.get("model_type") == "fsmt":
        return bart.read(config | {"vocab_size": config.get("tgt_vocab_size")}, processor)
    dictionary = config.get("dictionary")
    types = dictionary.get("types") if isinstance(dictionary, dict) else config.get("vocab_size")
    values = config | {
        "vocab_size": types,
        "decoder_ffn_dim": config.get("decoder_ffn_embed_dim"),
        "max_position_embeddings": config.get("max_target_positions"),
    }
    size = Sizes(values, {"max_position_embeddings": 1024})
    return bart.twin_dimensions(values, size, "encoder_embed_dim", "encoder_ffn_embed_dim")


def fairseq(config: JsonObject) -> bool:
    """Return whether a config is the args namespace of a FairSeq checkpoint, or FSMT's."""
    return config.get("model_type") == "fsmt" or (
        "encoder_embed_dim" in config and str(config.get("arch", "")).startswith("transformer")
    )


NMT = replace(
    bart.BART,
    name="nmt",
    title="FairSeq NMT",
    architectures=("transformer", "transformer_vaswani_wmt_en_fr_big"),
    model_type=None,  # FairSeq has no config.json
    recognised=fairseq,
    read=read,
    checkpoint=replace(
        bart.BART.checkpoint,
        loaded_as="FSMTForConditionalGeneration",
        tokenizer=Tokenizer(
            refusal="FairSeq's dictionaries stand for words that Moses and BPE codes have made,"
            " which no server here does: add a tokenizer.json that does both."
        ),
        published_pickled=True,
    ),
    dtypes=("float32", "float16", "bfloat16"),
    dtype_reason="upstream's example is float32",
    text=replace(bart.BART.text, position_offset=None, embedding_norm=False, adapters=False),
    decoder_input_tokens=1,
    trtllm=replace(
        bart.BART.trtllm,
        reads_pickles=True,
        convert_flags=("--model_type", "nmt"),
        build_flags=_FLAGS,
        encoder_flags=_FLAGS,
        refusals=(
            Refusal(
                "FairSeqLayout",
                lambda facts: facts.architecture.startswith("FSMT"),
                "the checkpoint is in transformers' layout (FSMT), and TensorRT-LLM's converter "
                "reads FairSeq's own: use the checkpoint that it was converted from",
            ),
        ),
    ),
    unserved=Unserved(
        "FairSeq NMT",
        "TensorRT engines are planned and not served: their checkpoints have no config.json and no"
        " tokenizer that a server reads. Use backend Reference with the model in transformers'"
        " layout (FSMT)",
        backends=(TENSORRT.name,),
    ),
    notes=("the weights are a pickle (model.pt): spec.model.allowPickle is needed",),
)
