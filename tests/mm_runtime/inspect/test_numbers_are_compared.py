"""Each whole number of a configuration that is one too large is refused, or no file shows it."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from mm_api.families import FAMILIES
from mm_runtime.engine_build.commands.verify_weights import refuse_other_class
from mm_runtime.errors import InspectRefusedError
from mm_runtime.inspect.checkpoint import InspectOptions
from mm_runtime.inspect.source import inspect_source
from support.families import images, texts
from support.made_once import made_once
from support.representatives import others_are_slow

FILES = ("config.json", "preprocessor_config.json")

UNSEEN = frozenset(
    {
        # Which of the tokens that there are ends, begins or fills a text.
        *("bos_token_id", "eos_token_id", "pad_token_id", "_pad_token_id", "forced_bos_token_id"),
        *("decoder_start_token_id", "forced_eos_token_id"),
        # How far and in which rhythm positions reach: no weight has their shape.
        *("max_position_embeddings", "sliding_window", "_sliding_window_pattern", "window_size"),
        *("max_window_layers", "relative_attention_max_distance", "tokens_per_second"),
        *("query_pre_attn_scalar", "cross_attention_frequency"),
        # Which layer's features are used, how large images may be, how they are scaled.
        *("vision_feature_layer", "mm_vision_select_layer", "resample", "shortest_edge"),
        *("longest_edge", "min_pixels", "max_pixels", "min_patches", "max_patches", "min_tiles"),
        "max_tiles",
        # Of no part that is served, of training, or overridden by another file.
        *("image_seq_length", "image_text_hidden_size", "encoder_hidden_size", "projection_dim"),
        *("pretraining_tp", "LABEL_0", "LABEL_1", "LABEL_2"),
        *("max_length", "num_beams", "classifier_proj_size", "median_filter_width"),
        # How a recording is cut into frames: by this file alone.
        *("chunk_length", "hop_length", "n_fft", "n_samples"),
    }
)
"""Last keys; docs/design/checkpoints.md says so."""

OWN = {"pixtral": "image_size", "mistral3": "image_size", "blip2-opt": "vocab_size"}
"""Of one family: its tower turns positions, or its Q-Former reads no texts."""


def numbers(value: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, one in value.items():
        if isinstance(one, dict):
            yield from numbers(one, (*path, key))
        elif type(one) is int:
            yield (*path, key)


def increased(text: str, path: tuple[str, ...]) -> str:
    document = json.loads(text)
    section = document
    for key in path[:-1]:
        section = section[key]
    section[path[-1]] += 1
    return json.dumps(document)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "family",
    others_are_slow(
        [*images.CASES, *texts.WRITERS], "llava", "mllama", "qwen2-vl", "t5", "whisper"
    ),
)
def test_off_by_one(tmp_path_factory: pytest.TempPathFactory, family: str) -> None:
    pytest.importorskip("torch")  # writes the checkpoint, and makes the class
    write = (images if family in images.CASES else texts).write
    source = made_once(tmp_path_factory, f"numbers-{family}", partial(write, family))
    taken = []
    files = [one for one in source.rglob("*.json") if one.name in FILES]
    for file in files:
        if FAMILIES[family].checkpoint.in_parts and file == source / "config.json":
            continue  # those of its parts count
        text = file.read_text()
        for path in numbers(json.loads(text)):
            if path[-1] in {*UNSEEN, OWN.get(family)} or path[-1].startswith("mask_"):
                continue
            file.write_text(increased(text, path))
            try:
                inspect_source(str(source), InspectOptions(), compare=refuse_other_class)
                taken.append(f"{file.name} {'.'.join(path)}")
            except InspectRefusedError:
                pass
            finally:
                file.write_text(text)
    assert not taken
