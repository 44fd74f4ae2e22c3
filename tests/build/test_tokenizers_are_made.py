"""Checkpoints without tokenizer.json get one that splits texts as their own tokenizer does."""

import io
import json
from pathlib import Path

import pytest
import sentencepiece
from transformers import ByT5Tokenizer

from mm_runtime.build.commands.make_tokenizer import bytes_tokenizer, make_tokenizer
from mm_runtime.build.commands.step import StepContext
from mm_runtime.build.places import Places
from mm_runtime.build.steps import steps
from mm_runtime.engine.tokens import TextCodec
from mm_runtime.errors import PermanentError
from support.families.pipeline import plan_of
from support.model_configs import facts_of

TEXTS = (
    *("hello world", "", "  two spaces", "line\nline", "Grüße, 3 €", "日本語", "\U0001f600 ok"),
    *("translate English to German: a red square .", "\x00\x7f\x80ÿ"),
)
END = 1


def context_of(family: str, folder: Path) -> StepContext:
    """Return a build of a Reference engine whose processor folder is still empty."""
    plan = plan_of(facts_of(family))
    places = Places(folder, plan.fingerprint)
    places.processor.mkdir(parents=True)
    return StepContext(plan, "", places)


def write_sentencepiece(folder: Path) -> sentencepiece.SentencePieceProcessor:
    """Train a small model as T5's are, and write it as mT5's is published."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*TEXTS[:5], *TEXTS[7:8]] * 20),
        model_writer=written,
        vocab_size=60,
        hard_vocab_limit=False,
        pad_id=0,
        eos_id=END,
        unk_id=2,
        bos_id=-1,
        minloglevel=2,
    )
    (folder / "spiece.model").write_bytes(written.getvalue())
    (folder / "config.json").write_text('{"model_type": "mt5"}')
    tokenizer = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>", "extra_ids": 0}
    (folder / "tokenizer_config.json").write_text(
        json.dumps(tokenizer | {"tokenizer_class": "T5Tokenizer"})
    )
    return sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())


def test_bytes_are_byt5s(tmp_path: Path) -> None:
    """Ids and texts are those of transformers' own tokenizer; no file of the checkpoint is read."""
    context = context_of("byt5", tmp_path)
    make_tokenizer(context)
    made, own = TextCodec(context.places.tokenizer), ByT5Tokenizer()
    for text in (*TEXTS, "a <extra_id_0> b"):
        ids = own(text).input_ids
        assert ids == made.encode_prompt(text)
        assert own.decode(ids, skip_special_tokens=True) == made.decode(ids)
    assert (made.end_id, made.pad_id) == (own.eos_token_id, own.pad_token_id)
    assert own.convert_tokens_to_ids("<extra_id_124>") == made.id_of("<extra_id_124>")


def test_sentinels_are_those_of_the_configuration() -> None:
    """A ByT5 without sentinels has ids for bytes only."""
    tokens = {one["content"] for one in json.loads(bytes_tokenizer(0))["added_tokens"]}
    assert tokens == {"<pad>", "</s>", "<unk>"}


def test_sentencepiece_is_translated(tmp_path: Path) -> None:
    """Ids are those of the SentencePiece model itself, with the end token that T5 adds."""
    context = context_of("mt5", tmp_path)
    own = write_sentencepiece(context.places.processor)
    make_tokenizer(context)
    made = TextCodec(context.places.tokenizer)
    for text in (*TEXTS[:3], TEXTS[7], "unseen words"):
        assert [*own.encode(text), END] == made.encode_prompt(text)
    assert made.decode(made.encode_prompt("hello world")) == "hello world"


def test_a_tokenizer_that_is_there_stays(tmp_path: Path) -> None:
    """Nothing is written beside the checkpoint's own."""
    context = context_of("byt5", tmp_path)
    (context.places.processor / "tokenizer.json").write_text("{}")
    make_tokenizer(context)
    assert not list(context.places.tokenizer.iterdir())


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "neither tokenizer.json nor a SentencePiece"), (b"no model", "makes no fast tok")],
    ids=["absent", "damaged"],
)
def test_what_cannot_be_made_is_said(tmp_path: Path, content: bytes | None, words: str) -> None:
    """The build ends for good, with what to do."""
    context = context_of("mt5", tmp_path)
    write_sentencepiece(context.places.processor)
    path = context.places.processor / "spiece.model"
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(PermanentError, match=words):
        make_tokenizer(context)


@pytest.mark.parametrize(
    ("family", "made"), [("byt5", True), ("mbart", True), ("t5", False), ("llava", False)]
)
def test_only_families_without_one_have_the_step(family: str, *, made: bool) -> None:
    """Others are refused by the inspection when theirs is missing."""
    plan = plan_of(facts_of(family))
    assert made == ("make-tokenizer" in [step.name for step in steps(plan)])
