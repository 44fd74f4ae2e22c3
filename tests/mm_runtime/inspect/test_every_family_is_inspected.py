"""The inspect Job reads every family, each in its own layout of files."""

from pathlib import Path

import pytest

from mm_api.checkpoint import Dimensions
from mm_api.documents.model_facts import InspectReason
from mm_runtime.errors import InspectRefusedError
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from mm_runtime.inspect.report import facts_report
from mm_runtime.inspect.weights import read
from mm_runtime.sources.identity import PARTS
from support.cases import cases
from support.hollow_checkpoint import described, write_safetensors
from support.model_configs import FOLDERS, MODELS, facts_of
from support.trtllm_sites import write_tokenizer

LIMIT_BYTES = 4096


def source_of(family: str, folder: Path) -> Path:
    """Return a checkpoint of a family: its real configuration, hollow weights in its layout."""
    MODELS[family].write(folder)
    (folder / "model.safetensors.index.json").unlink(missing_ok=True)
    facts = facts_of(family)
    found = Dimensions(facts.text, facts.vision, facts.encoder)
    tensors = described(found, "BF16")
    if family == "vila":
        tensors["projector.weight"] = ("BF16", (8, 11))
        for part in PARTS:
            (folder / part).mkdir(exist_ok=True)
            mine = {name: one for name, one in tensors.items() if _part(name) == part}
            write_safetensors(folder / part / "model.safetensors", mine)
        write_tokenizer(folder / "llm", family)
    else:
        write_safetensors(folder / "model.safetensors", tensors)
        write_tokenizer(folder, family)
    return folder


def _part(name: str) -> str:
    return {"model.vision_tower": "vision_tower", "projector": "mm_projector"}.get(
        ".".join(name.split(".")[: 2 if name.startswith("model") else 1]), "llm"
    )


@pytest.mark.parametrize("family", FOLDERS)
def test_facts_of_every_family(family: str, tmp_path: Path) -> None:
    source = source_of(family, tmp_path / "source")

    facts = inspect(source, InspectOptions(allow_pickle=True))

    expected = facts_of(family)
    assert facts.family == family
    assert (facts.text, facts.vision, facts.encoder) == (
        expected.text,
        expected.vision,
        expected.encoder,
    )
    assert len(facts_report(facts).encode()) <= LIMIT_BYTES


def test_parts_of_vila_are_added(tmp_path: Path) -> None:
    source = source_of("vila", tmp_path / "source")
    facts = inspect(source, InspectOptions())

    found = [read(source / part, allow_pickle=False, config_dtype=None) for part in PARTS]
    assert (facts.parameters, facts.weight_bytes, facts.dtype) == (
        sum(part.parameters for part in found),
        sum(part.bytes for part in found),
        "bfloat16",
    )


def test_byt5_needs_no_tokenizer(tmp_path: Path) -> None:
    """Its tokens are bytes: the build writes the file that servers read."""
    source = source_of("byt5", tmp_path / "source")
    (source / "tokenizer.json").unlink()

    assert inspect(source, InspectOptions()).family == "byt5"


@cases(
    "family name",
    {
        "t5": ("mt5", "spiece.model"),
        "mbart": ("mbart", "sentencepiece.bpe.model"),
        "llama-in-a-part": ("vila", "llm/tokenizer.model"),
    },
)
def test_sentence_piece_models_are_enough(family: str, name: str, tmp_path: Path) -> None:
    source = source_of(family, tmp_path / "source")
    (source / name).write_bytes(b"pieces")
    complete = inspect(source, InspectOptions())
    for path in source.rglob("tokenizer.json"):
        path.unlink()

    facts = inspect(source, InspectOptions())

    assert (None, name) == (complete.sentence_piece_model, facts.sentence_piece_model)


@cases(
    "family words",
    {
        "fairseq": ("nmt", "that Moses and BPE codes have made"),
        "beside": ("mt5", "neither tokenizer.json nor a Sent.*AutoProcessor"),
        "byte-pairs": ("bart", r"fast tokenizer beside vocab\.json and merges\.txt"),
        "in-a-part": ("vila", "into llm/: AutoTokenizer"),
    },
)
def test_others_are_refused_without_one(family: str, words: str, tmp_path: Path) -> None:
    """Before anything is built, with what to add."""
    source = source_of(family, tmp_path / "source")
    for path in source.rglob("tokenizer.json"):
        path.unlink()
    if family == "nmt":  # its dictionary numbers words, not what a model of pieces cuts
        (source / "sentencepiece.bpe.model").write_bytes(b"pieces")

    with pytest.raises(InspectRefusedError, match=words) as refused:
        inspect(source, InspectOptions(allow_pickle=True))

    assert refused.value.reason is InspectReason.CONFIG_MISSING
