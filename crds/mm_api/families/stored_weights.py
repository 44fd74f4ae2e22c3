"""PURE: whether the headers of a checkpoint's weights are those that its config.json describes.

transformers draws a weight at random where the checkpoint has none, and says so in a log line only.
Layers of a family here are alike, so that one that lacks a weight is seen without the class. What
headers do not show is left to the build, and so are classes that no record describes (`generic`).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mm_api.checkpoint.quantized import SCALES
from mm_api.checkpoint.values import CheckpointError, Dimensions, JsonObject
from mm_api.documents.model_facts import EncoderFacts, InspectReason, TextFacts, VisionFacts
from mm_api.families.family import Family

Shape = tuple[int, ...]
Layers = dict[int, dict[str, Shape]]
"""Number of a layer -> rest of a tensor's name -> its shape."""

_LAYER: Final = re.compile(r"(.*?\b(?:layers|layer|blocks|block))\.(\d+)\.(.+)")
_TOWER: Final = re.compile(r"vision|visual")
_OTHER: Final = re.compile(
    r"vision|visual|image|img|audio|speech|qformer|projector|connector|perceiver|resampler"
    r"|talker|token2wav|multi_modal"
)
"""Names of what is not the language model."""

_EMBEDDINGS: Final = frozenset({"embed_tokens", "shared", "wte", "word_embeddings"})
_HEADS: Final = frozenset({"lm_head", "proj_out", "output_projection", "embed_out"})
_UNTIED: Final = frozenset({"llama", "mistral", "qwen2", "qwen2_vl", "qwen2_5_vl", "qwen3", "phi3"})
"""model_type of text models whose class has an output matrix of its own by default."""

_TIED: Final = frozenset({"gemma3", "internvl", "mistral3"})
"""model_type of checkpoints whose class uses the embedding unless config.json says otherwise."""

_FIRST_ONLY: Final = "relative_attention_bias.weight"
"""In T5's stacks: the first layer has the table that all use."""

_MATRICES: Final = {
    **dict.fromkeys(("q_proj", "q"), ("q", "h")),
    **dict.fromkeys(("k_proj", "v_proj", "k", "v"), ("kv", "h")),
    **dict.fromkeys(("o_proj", "out_proj", "o"), ("h", "q")),
    **dict.fromkeys(("gate_proj", "up_proj", "fc1", "wi", "wi_0", "wi_1"), ("i", "h")),
    **dict.fromkeys(("down_proj", "fc2", "wo"), ("h", "i")),
    "qkv_proj": ("qkv", "h"),
    "qkv": ("qkv", "h"),
    "gate_up_proj": ("2i", "h"),
}
"""Last module of a name in a layer -> its outputs and inputs."""

_SHOWN: Final = 3


def check_stored(
    entries: Mapping[str, Mapping[str, Any]],
    config: JsonObject,
    family: Family,
    dimensions: Dimensions,
    *,
    packed: bool = False,
) -> None:
    """Refuse weights of other layers or shapes than config.json says (CheckpointError).

    `entries`: name of a tensor -> dtype and shape, of all files; in folders behind their name.
    `packed`: several numbers may lie in one, so shapes say nothing.
    """
    shapes = {
        name: tuple(entry["shape"])
        for name, entry in entries.items()
        if not (packed and name.endswith(SCALES))
    }
    stacks: dict[str, Layers] = defaultdict(lambda: defaultdict(dict))
    for name, shape in shapes.items():
        if found := _LAYER.match(name):
            stacks[found[1]][int(found[2])][found[3]] = shape
    for part, facts in _parts(family, dimensions):
        name, layers = _longest(stacks, part)
        _check_numbers(part, name, layers, facts.layers)
        cross = facts.cross_attention_layers or 0 if isinstance(facts, TextFacts) else 0
        _check_alike(name, layers, cross)
        if not packed:
            _check_shapes(name, layers, _sizes(facts))
    _check_ends(shapes, config, family, dimensions.text)


def _parts(
    family: Family, dimensions: Dimensions
) -> Iterator[tuple[str, TextFacts | EncoderFacts | VisionFacts]]:
    if dimensions.encoder is not None:
        yield "encoder", dimensions.encoder
        yield "decoder", dimensions.text
    else:
        yield "language model", dimensions.text
    if dimensions.vision is not None and family.has_tower:
        yield "vision tower", dimensions.vision


def _longest(stacks: Mapping[str, Layers], part: str) -> tuple[str, Layers]:
    def is_of(name: str) -> bool:
        if part == "vision tower":
            return _TOWER.search(name) is not None
        mine = part == "language model" or part in name
        return mine and _OTHER.search(name) is None

    chosen = [name for name in stacks if is_of(name)]
    if not chosen:
        raise _refusal(f"the weights hold no layer of the {part}")
    name = max(chosen, key=lambda one: len(stacks[one]))
    return name, stacks[name]


def _check_numbers(part: str, name: str, layers: Layers, expected: int) -> None:
    lacking = sorted(set(range(expected)) - set(layers))
    more = sorted(set(layers) - set(range(expected)))
    if lacking or more:
        what = f"lack layer {_few(lacking)}" if lacking else f"have layer {_few(more)}"
        raise _refusal(f"weights {name} {what}; config.json says {expected} layers of the {part}")


def _check_alike(name: str, layers: Layers, cross: int) -> None:
    """Refuse a layer whose weights have other names than those of the others."""
    named = {
        number: frozenset(one for one in held if not one.endswith(_FIRST_ONLY))
        for number, held in layers.items()
    }
    groups = Counter(named.values())
    if sorted(groups.values()) == sorted(filter(None, (cross, len(layers) - cross))):
        return
    if len(groups) == 1:
        raise _refusal(
            f"all layers of {name} have the same weights, and config.json says that {cross} of"
            f" {len(layers)} have cross attention"
        )
    odd = min(groups, key=lambda one: (groups[one], len(one)))
    like = max((one for one in groups if one is not odd), key=lambda one: len(one & odd))
    number = next(number for number, one in sorted(named.items()) if one == odd)
    other = next(number for number, one in sorted(named.items()) if one == like)
    verb, differing = ("lacks", like - odd) if like - odd else ("has", odd - like)
    contrast = "has" if verb == "lacks" else "has not"
    raise _refusal(
        f"layer {number} of {name} {verb} {_few(sorted(differing))}, which layer {other} {contrast}"
    )


def _sizes(facts: TextFacts | EncoderFacts | VisionFacts) -> dict[str, int | None]:
    hidden, inner = facts.hidden_size, facts.intermediate_size
    if isinstance(facts, VisionFacts):
        queries = keys = hidden
    else:
        queries = facts.attention_heads * facts.head_size
        heads = facts.key_value_heads if isinstance(facts, TextFacts) else facts.attention_heads
        keys = heads * facts.head_size
    return {
        "h": hidden,
        "q": queries,
        "kv": keys,
        "qkv": queries + 2 * keys,
        "i": inner,
        "2i": inner and 2 * inner,
    }


def _check_shapes(name: str, layers: Layers, sizes: Mapping[str, int | None]) -> None:
    """Refuse a shape that config.json does not give, or that no other layer has."""
    seen: dict[str, Counter[Shape]] = defaultdict(Counter)
    for held in layers.values():
        for suffix, shape in held.items():
            seen[suffix][shape] += 1
    for number, held in sorted(layers.items()):
        for suffix, shape in held.items():
            module, _, kind = suffix.rpartition(".")
            both = [sizes[one] for one in _MATRICES.get(module.rpartition(".")[2], ())]
            expected = tuple(both if kind == "weight" else both[:1])
            source = "config.json says"
            if not expected or None in expected or kind not in {"weight", "bias"}:
                expected, source = seen[suffix].most_common(1)[0][0], "most layers have"
            if shape != expected:
                raise _refusal(
                    f"{name}.{number}.{suffix} has the shape {list(shape)}, and {source}"
                    f" {list(expected)}"
                )


def _check_ends(
    shapes: Mapping[str, Shape], config: JsonObject, family: Family, text: TextFacts
) -> None:
    """Refuse a language model without its embedding or its output matrix."""
    found: dict[str, tuple[str, Shape]] = {}
    for name, shape in shapes.items():
        *_, module, kind = ("", *re.split(r"[./]", name))
        if kind == "weight" and len(shape) > 1 and not _OTHER.search(name):
            for what, modules in (("embedding", _EMBEDDINGS), ("head", _HEADS)):
                if module in modules:
                    found[what] = (name, shape)
    rows = {text.vocabulary_size, text.vocabulary_size + family.text.extra_rows}
    for name, shape in found.values():
        if shape[0] not in rows or shape[1] != text.hidden_size:
            raise _refusal(
                f"{name} has the shape {list(shape)}, and config.json says"
                f" {[text.vocabulary_size, text.hidden_size]} (vocab_size, hidden_size)"
            )
    if "embedding" not in found:
        raise _refusal(f"the weights hold no embedding ({', '.join(sorted(_EMBEDDINGS))})")
    if "head" not in found and not _is_tied(config, text):
        raise _refusal(
            "the weights hold no lm_head.weight, and config.json does not say"
            " tie_word_embeddings: true, by which the embedding is used in its place"
        )


def _is_tied(config: JsonObject, text: TextFacts) -> bool:
    """Return whether the embedding may be the output matrix; True where it is not known."""
    inner = next((config[one] for one in ("text_config", "llm_cfg") if one in config), None) or {}
    stated = [part.get("tie_word_embeddings") for part in (config, inner)]
    if True in stated or text.tied_embeddings:
        return True
    if stated[0] is None and config.get("model_type") in _TIED:
        return True
    return False not in stated and inner.get("model_type", "llama") not in _UNTIED


def _few(found: list[Any]) -> str:
    return ", ".join(map(str, found[:_SHOWN])) + (" ..." if found[_SHOWN:] else "")


def _refusal(what: str) -> CheckpointError:
    return CheckpointError(
        InspectReason.WEIGHTS_INVALID,
        f"{what}. transformers would draw what is missing at random: download the checkpoint again,"
        " or use the config.json that was published with these weights.",
    )
