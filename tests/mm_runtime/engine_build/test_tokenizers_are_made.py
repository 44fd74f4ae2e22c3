"""ByT5, which has no tokenizer's file, gets one that splits texts as its own tokenizer does."""

import json
from pathlib import Path

import pytest
from transformers import ByT5Tokenizer

from mm_runtime.backends import steps
from mm_runtime.engine_build.build_paths import BuildPaths
from mm_runtime.engine_build.commands.make_tokenizer import bytes_tokenizer, make_tokenizer
from mm_runtime.engine_build.commands.step import StepContext
from mm_runtime.serving.prompts.tokens import TextCodec
from support.families.pipeline import plan_of
from support.model_configs import facts_of

TEXTS = (
    *("hello world", "", "  two spaces", "line\nline", "Grüße, 3 €", "日本語", "\U0001f600 ok"),
    *("translate English to German: a red square .", "\x00\x7f\x80ÿ"),
)


def context_of(family: str, folder: Path) -> StepContext:
    """Return a build of a Reference engine whose processor folder is still empty."""
    plan = plan_of(facts_of(family))
    paths = BuildPaths(folder, plan.fingerprint)
    paths.processor.mkdir(parents=True)
    return StepContext(plan, "", paths)


def test_bytes_are_byt5s(tmp_path: Path) -> None:
    """Ids and texts are those of transformers' own tokenizer; no file of the checkpoint is read."""
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
    """A ByT5 without sentinels has ids for bytes only."""
    tokens = {one["content"] for one in json.loads(bytes_tokenizer(0))["added_tokens"]}
    assert tokens == {"<pad>", "</s>", "<unk>"}


def test_a_tokenizer_that_is_there_stays(tmp_path: Path) -> None:
    """Nothing is written beside the checkpoint's own."""
    context = context_of("byt5", tmp_path)
    (context.paths.processor / "tokenizer.json").write_text("{}")
    make_tokenizer(context)
    assert not list(context.paths.tokenizer.iterdir())


@pytest.mark.parametrize(("family", "made"), [("byt5", True), ("t5", False), ("llava", False)])
def test_only_byt5_has_the_step(family: str, *, made: bool) -> None:
    """Others are refused by the inspection when theirs is missing."""
    plan = plan_of(facts_of(family))
    assert made == ("make-tokenizer" in [step.name for step in steps(plan)])
