"""Convert FairSeq's transformer (model.pt, dictionaries, BPE codes) to the layout of transformers.

Names and values follow transformers' script (convert_fsmt_original_pytorch_checkpoint_to_pytorch),
and what FairSeq renames in older checkpoints (upgrade_state_dict) is renamed here.
"""

import json
import re
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from mm_runtime.base.chat_template_files import DICTIONARY_SIZE
from mm_runtime.errors import PermanentError

SPECIAL = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
"""First in every dictionary, and not in its file."""
END = "</w>"
_UNUSED = re.compile(r".*\.(version|embed_positions\.(weights|_float_tensor))")
"""Buffers, which the class computes itself."""
_EMBEDDING = "model.decoder.embed_tokens.weight"
_PROJECTION = "model.decoder.output_projection.weight"
_NORMS = {
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}
"""What older checkpoints number as `layer_norms.0` and so on."""


def convert(folder: Path) -> None:
    """Write the files of transformers' layout in place of FairSeq's.

    Raises:
        PermanentError: a file is missing, or holds what the other layout cannot.
        WeightsUnusableError: a weight is missing, left over or of another shape.
    """
    import torch  # noqa: PLC0415 (an image without it gets its name)
    from safetensors.torch import save_file  # noqa: PLC0415
    from transformers import FSMTConfig, FSMTForConditionalGeneration  # noqa: PLC0415

    from mm_runtime.reference_engine.all_weights import load_weights  # noqa: PLC0415

    with torch.serialization.safe_globals([Namespace]):
        loaded = torch.load(folder / "model.pt", map_location="cpu", weights_only=True)
    found: Any = loaded.get("args") or loaded["cfg"]["model"]
    arguments: dict[str, Any] = vars(found) if isinstance(found, Namespace) else found
    langs = [arguments["source_lang"], arguments["target_lang"]]
    words, answers = (_dictionary(folder / f"dict.{lang}.txt") for lang in langs)
    if answers != words:
        raise PermanentError(
            "the dictionaries differ, and one tokenizer.json serves both: join them"
        )
    merges = _merges(folder)
    weights: dict[str, Any] = dict(_renamed(loaded["model"]))
    config = FSMTConfig(langs=langs, **_config(arguments, len(words)))
    model = FSMTForConditionalGeneration(config)
    weights |= {name: one for name, one in model.state_dict().items() if "embed_positions" in name}
    embedding, projection = weights.get(_EMBEDDING), weights.get(_PROJECTION)
    if projection is None:
        weights[_PROJECTION] = embedding
    elif not projection.equal(embedding):
        raise PermanentError(f"{_PROJECTION} is not the decoder's embedding, as it is in FSMT")
    config.architectures = [type(model).__name__]
    config.save_pretrained(folder)
    copies = {name: one.contiguous().clone() for name, one in weights.items() if one is not None}
    save_file(copies, folder / "model.safetensors", metadata={"format": "pt"})
    load_weights(type(model), folder).save_pretrained(folder)
    named = {**SPECIAL, "langs": langs, DICTIONARY_SIZE: len(words)}
    files = {"vocab-src.json": words, "vocab-tgt.json": words, "tokenizer_config.json": named}
    texts = {name: json.dumps(content, ensure_ascii=False) for name, content in files.items()}
    texts["merges.txt"] = "".join(f"{left} {right}\n" for left, right in merges)
    texts["tokenizer.json"] = _tokenizer(words, merges)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    for old in (folder / "model.pt", *folder.glob("dict.*.txt")):
        old.unlink()


def _dictionary(path: Path) -> dict[str, int]:
    """Return word -> id, spelled as transformers does: `er</w>` ends a word, `le` does not."""
    words = {word: at for at, word in enumerate(SPECIAL.values())}
    for line in _lines(path):
        word, _, count = line.rpartition(" ")
        spelled = word.removesuffix("@@") if word.endswith("@@") else word + END
        if not count.isdecimal() or spelled in words:
            raise PermanentError(f"{path.name}: {line!r} is not a new word and its count")
        words[spelled] = len(words)
    return words


def _merges(folder: Path) -> list[tuple[str, str]]:
    path = folder / ("bpecodes" if (folder / "bpecodes").is_file() else "code")
    found = []
    for line in _lines(path):
        left, right, *_ = [*line.split(), "", ""]
        if not right or END in {left, right}:
            raise PermanentError(f"{path.name}: {line!r} is no merge as fastBPE writes them")
        if left != "#version:":
            found.append((left, right))
    return found


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        raise PermanentError(f"{path.name} is not beside model.pt")
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def _renamed(state: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, tensor in state.items():
        norms = _NORMS.get(name.partition(".")[0], ())
        spelled = re.sub(r"layer_norms\.([012])", lambda at: norms[int(at[1])], name)  # noqa: B023
        before, packed, after = spelled.partition("in_proj_")
        if packed:
            for which, part in zip("qkv", tensor.chunk(3), strict=True):
                yield f"model.{before}{which}_proj.{after}", part
        elif not _UNUSED.fullmatch(name):
            yield f"model.{spelled}", tensor


def _config(arguments: Mapping[str, Any], words: int) -> dict[str, Any]:
    sizes = {"layers": "layers", "attention_heads": "attention_heads", "ffn_dim": "ffn_embed_dim"}
    return {
        **{f"{one}_{to}": arguments[f"{one}_{of}"] for one in _NORMS for to, of in sizes.items()},
        "src_vocab_size": words,
        "tgt_vocab_size": words,
        "d_model": arguments["decoder_embed_dim"],
        "max_position_embeddings": arguments.get("max_source_positions", 1024),
        "activation_function": arguments.get("activation_fn", "relu"),
        "scale_embedding": not arguments.get("no_scale_embedding", False),
        "tie_word_embeddings": arguments["share_all_embeddings"],
    }


def _tokenizer(words: Mapping[str, int], merges: list[tuple[str, str]]) -> str:
    """Return tokenizer.json; pieces that are merged further get ids behind the dictionary."""
    vocabulary = dict(words)
    for piece in (piece for merge in merges for piece in (*merge, "".join(merge))):
        vocabulary.setdefault(piece, len(vocabulary))
    unknown, end = SPECIAL["unk_token"], SPECIAL["eos_token"]
    model = models.BPE(vocabulary, merges, unk_token=unknown, end_of_word_suffix=END)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.BPEDecoder(suffix=END)
    tokenizer.add_special_tokens(list(SPECIAL.values()))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {end}", special_tokens=[(end, words[end])]
    )
    return str(tokenizer.to_str())


if __name__ == "__main__":
    try:
        convert(Path(sys.argv[1]))
    except UnpicklingError as error:
        sys.exit("model.pt holds more than tensors and arguments: " + " ".join(str(error).split()))
    except KeyError as error:
        sys.exit(f"model.pt states no {error.args[0]}")
    except (PermanentError, ImportError, RuntimeError) as error:
        sys.exit(" ".join(str(error).split()))
