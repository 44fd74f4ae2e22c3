"""Tokenizers that checkpoints lack are made of what they have: ids are those of the model."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from sentencepiece import SentencePieceProcessor
from transformers import ByT5Tokenizer

from mm_api.documents.engine_manifest import TOKENIZER_FOLDER
from mm_runtime.backends import steps
from mm_runtime.engine_build.build_paths import BuildPaths
from mm_runtime.engine_build.commands import sentence_pieces
from mm_runtime.engine_build.commands.make_tokenizer import bytes_tokenizer, make_tokenizer
from mm_runtime.engine_build.commands.step import StepContext
from mm_runtime.errors import PermanentError
from mm_runtime.serving.prompts.tokens import TextCodec
from support.families.pipeline import plan_of
from support.model_configs import facts_of
from support.sentence_pieces import train, write_config

TEXTS = (
    *("hello world", "", "  two spaces", "line\nline", "Grüße, 3 €", "日本語", "\U0001f600 ok"),
    *("translate English to German: a red square .", "\x00\x7f\x80ÿ"),
)


def context_of(family: str, folder: Path) -> StepContext:
    plan = plan_of(facts_of(family))
    paths = BuildPaths(folder, plan.fingerprint)
    paths.processor.mkdir(parents=True)
    return StepContext(plan, "", paths)


def test_bytes_are_byt5s(tmp_path: Path) -> None:
    context = context_of("byt5", tmp_path)
    make_tokenizer(context)
    made, own = TextCodec(context.paths.tokenizer), ByT5Tokenizer()
    for text in (*TEXTS, "a <extra_id_0> b"):
        ids = own(text).input_ids
        assert ids == made.encode_prompt(text)
        assert own.decode(ids, skip_special_tokens=True) == made.decode(ids)
    assert (made.end_id, made.pad_id) == (own.eos_token_id, own.pad_token_id)
    assert own.convert_tokens_to_ids("<extra_id_124>") == made.id_of("<extra_id_124>")


def test_sentinels_are_those_of_the_configuration() -> None:
    tokens = {one["content"] for one in json.loads(bytes_tokenizer(0))["added_tokens"]}
    assert tokens == {"<pad>", "</s>", "<unk>"}


def test_a_tokenizer_that_is_there_stays(tmp_path: Path) -> None:
    context = context_of("byt5", tmp_path)
    (context.paths.processor / "tokenizer.json").write_text("{}")
    make_tokenizer(context)
    assert not list(context.paths.tokenizer.iterdir())


@pytest.mark.parametrize(("family", "made"), [("byt5", True), ("t5", False), ("llava", False)])
def test_only_byt5_has_the_step(family: str, *, made: bool) -> None:
    plan = plan_of(facts_of(family))
    assert made == ("make-tokenizer" in [step.name for step in steps(plan)])


PIECES_TEXTS = (
    *sentence_pieces.SAMPLES,
    *("translate English to German: a red square .", "WORDS—dash", "e\u0301 vs é", "a\xa0b\u200bc"),
    *("זה משפט", "ภาษาไทย", "Ελληνικά", "tiếng Việt", "ҚАЗАҚ тілі", "۱۲۳ ٤٥٦", "中文\uff0c标点。"),
)
CORPUS = [text for at, text in enumerate(PIECES_TEXTS, start=3) for _ in range(at)]
"""Each its own number of times: of two ways to split a text one is always better."""

SPACED = ("  two  spaces ", " ", "▁ under")
"""Where LLaMA's own rule differs between versions of transformers."""


@dataclass(frozen=True)
class Case:
    """One kind of checkpoint."""

    family: str
    file: str
    kind: str
    config: dict[str, Any]
    around: Callable[[list[int], SentencePieceProcessor], list[int]]
    """Ids of the pieces -> ids of a prompt, as the slow tokenizer of the family gives them."""


def with_end(ids: list[int], _: SentencePieceProcessor) -> list[int]:
    return [*ids, 1]


def fairseq(ids: list[int], pieces: SentencePieceProcessor) -> list[int]:
    """mBART-50: <s> <pad> </s> <unk> come first; language before the text, </s> behind it."""
    german = pieces.get_piece_size() + 1 + 2  # ar_AR, cs_CZ, de_DE
    return [german, *(3 if one == 0 else one + 1 for one in ids), 2]


def fairseq_of_2020(ids: list[int], pieces: SentencePieceProcessor) -> list[int]:
    """mBART: as above, but </s> and language behind the text; no language named: en_XX."""
    english = pieces.get_piece_size() + 1 + 3
    return [*(3 if one == 0 else one + 1 for one in ids), 2, english]


def with_begin(ids: list[int], _: SentencePieceProcessor) -> list[int]:
    return [1, *ids]


ENDS = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
T5 = {"tokenizer_class": "T5Tokenizer", **ENDS}
CASES = {
    "t5": Case("t5", "spiece.model", "t5", T5, with_end),
    "mt5": Case("mt5", "spiece.model", "t5", {**T5, "extra_ids": 0}, with_end),
    "class-in-config": Case("mt5", "spiece.model", "t5", {"extra_ids": 0}, with_end),
    "mbart-50": Case(
        "mbart",
        "sentencepiece.bpe.model",
        "mbart",
        {"tokenizer_class": "MBart50Tokenizer", "src_lang": "de_DE"},
        fairseq,
    ),
    "mbart": Case(
        "mbart",
        "sentencepiece.bpe.model",
        "mbart",
        {"tokenizer_class": "MBartTokenizer"},
        fairseq_of_2020,
    ),
    "vila": Case(
        "vila",
        "llm/tokenizer.model",
        "llama",
        {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "add_bos_token": True, **ENDS},
        with_begin,
    ),
}


def fetched(case: Case, folder: Path) -> StepContext:
    facts = facts_of(case.family).model_copy(update={"sentence_piece_model": case.file})
    plan = plan_of(facts)
    paths = BuildPaths(folder, plan.fingerprint)
    model = paths.fetched(case.file)
    config = paths.fetched(str(Path(case.file).parent / "config.json"))
    for path in (model, config):
        path.parent.mkdir(parents=True, exist_ok=True)
    train(case.kind, CORPUS, model)
    write_config(model.parent, **case.config)
    kind = "llava" if case.kind == "llama" else case.family
    for path in (config, model.parent / "config.json"):  # as engines of TensorRT-LLM have it
        path.write_text(f'{{"model_type": "{kind}"}}')
    return StepContext(plan, "", paths)


@pytest.mark.parametrize("name", CASES)
def test_ids_are_those_of_the_model(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    context = fetched(case, tmp_path)
    make_tokenizer(context)
    made = TextCodec(context.paths.unfinished / TOKENIZER_FOLDER)
    pieces = SentencePieceProcessor(model_file=str(context.paths.fetched(case.file)))
    texts = PIECES_TEXTS if case.kind == "llama" else PIECES_TEXTS + SPACED
    expected = {text: case.around(pieces.encode(text), pieces) for text in texts}
    assert expected == {text: made.encode_prompt(text) for text in texts}
    assert made.end_id == made.encode_word("</s>")[-1]
    known = "translate English to German: a red square ."
    assert made.decode(made.encode_prompt(known)) == known


def test_another_conversion_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = fetched(CASES["mbart"], tmp_path)
    monkeypatch.setattr(sentence_pieces, "_normalizer", lambda _: None)  # as transformers 5.23
    with pytest.raises(PermanentError, match=r"splits 'two  spaces' into|splits 'ﬁne "):
        make_tokenizer(context)
    assert not list(context.paths.tokenizer.iterdir())


def test_what_is_no_model_is_reported(tmp_path: Path) -> None:
    """A file cut on its way is not called a problem of transformers."""
    context = fetched(CASES["mt5"], tmp_path)
    path = context.paths.fetched("spiece.model")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(PermanentError, match=r"spiece.model is not a SentencePiece model"):
        make_tokenizer(context)


def test_an_unknown_class_is_reported(tmp_path: Path) -> None:
    case = replace(CASES["mt5"], config={"tokenizer_class": "NoSuchTokenizer"})
    context = fetched(case, tmp_path)
    with pytest.raises(PermanentError, match=r"spiece.model.*save_pretrained"):
        make_tokenizer(context)


def test_an_image_without_the_library_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Images of TensorRT-LLM are not ours."""
    context = fetched(CASES["mt5"], tmp_path)
    monkeypatch.delitem(sys.modules, sentence_pieces.__name__)
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(PermanentError, match=r"has no sentencepiece, .* of spiece\.model"):
        make_tokenizer(context)


def test_only_such_checkpoints_have_the_step() -> None:
    """Before any engine, which takes an hour."""
    facts = facts_of("mt5")
    bare = facts.model_copy(update={"sentence_piece_model": "spiece.model"})
    names = [[step.name for step in steps(plan_of(one))] for one in (facts, bare)]
    ends = ["verify-weights", "evaluation"]
    assert names == [["fetch", *ends], ["fetch", "make-tokenizer", *ends]]
