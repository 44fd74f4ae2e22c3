"""The tokenizer's table is compared and cut before an engine is built for hours."""

import json
from pathlib import Path

import pytest

from mm_api.trtllm_layout import TOKENIZER_INFO
from mm_runtime.engine_build.build_paths import BuildPaths
from mm_runtime.engine_build.commands.fit_tokenizer_info import fit_tokenizer_info
from mm_runtime.engine_build.commands.step import StepContext
from mm_runtime.errors import VerificationFailedError
from support.cases import cases
from support.model_configs import planned

WORDS = ["<unk>", "red", "</s>"]


def _context(folder: Path, table: object, *, logits: int = 32) -> StepContext:
    plan = planned("llava", version="0.20.0").build_plan
    assert plan
    text = plan.facts.text.model_copy(update={"vocabulary_size": logits})
    plan = plan.model_copy(update={"facts": plan.facts.model_copy(update={"text": text})})
    paths = BuildPaths.of(folder, plan)
    for one in (paths.checkpoint_tokenizer, paths.tokenizer_table, paths.unfinished):
        one.mkdir(parents=True, exist_ok=True)
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"}
    own = paths.checkpoint_tokenizer
    (own / "tokenizer.json").write_text(json.dumps({"version": "1.0", "model": model}))
    (own / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>"}))
    (paths.tokenizer_table / TOKENIZER_INFO).write_text(json.dumps(table))
    return StepContext(plan, "", paths)


def _table(names: list[str], ends: list[int]) -> dict[str, object]:
    return {"encoded_vocab": names, "tokenizer_str": "{}", "stop_token_ids": ends}


def test_a_table_that_fits_stays(tmp_path: Path) -> None:
    table = _table(WORDS, [2])
    context = _context(tmp_path, table)
    fit_tokenizer_info(context)
    assert json.loads((context.paths.guided / TOKENIZER_INFO).read_text()) == table


def test_tokens_without_logits_are_left_out(tmp_path: Path) -> None:
    """The server's mask is as long as the logits; a second run changes nothing."""
    context = _context(tmp_path, _table([*WORDS, "<image>"], [2]), logits=3)
    for _ in range(2):
        fit_tokenizer_info(context)
        assert json.loads((context.paths.guided / TOKENIZER_INFO).read_text()) == _table(WORDS, [2])


@cases(
    "table words",
    {
        "moved": (_table(["<unk>", "</s>"], [1]), "'</s>' at place 1"),
        "other-end": (_table(WORDS, [0]), "requests name 2"),
        "incomplete": ({"encoded_vocab": WORDS}, "no table"),
        "list": ([], "no table"),
    },
)
def test_tables_that_would_mark_other_tokens(tmp_path: Path, table: object, words: str) -> None:
    with pytest.raises(VerificationFailedError, match=words) as refusal:
        fit_tokenizer_info(_context(tmp_path, table))
    assert "guidedDecoding to Off" in str(refusal.value)
