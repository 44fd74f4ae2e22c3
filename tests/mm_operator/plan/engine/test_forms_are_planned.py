"""Answers of a form: the tokenizer's table of engines, the option of trtllm-serve."""

from typing import Any

import pytest

from mm_api.documents.build_plan import BuildPlan
from mm_operator.plan.engine.documents import fingerprint_of
from support.cases import cases
from support.model_configs import facts_of, planned

SCRIPT = "examples/generate_xgrammar_tokenizer_info.py"


def _built(family: str, engine: dict[str, Any] | None = None, version: str = "1.2.1") -> BuildPlan:
    plan = planned(family, engine, version=version)
    assert plan.errors == []
    assert plan.build_plan
    return plan.build_plan


def _argv(plan: BuildPlan) -> list[str] | None:
    return plan.trtllm.tokenizer_info.argv if plan.trtllm.tokenizer_info else None


@pytest.mark.parametrize(
    ("family", "folder"),
    [("llava", "checkpoint"), ("mllama", "checkpoint"), ("vila", "checkpoint-vila/llm")],
)
@pytest.mark.parametrize("version", ["1.2.0", "1.2.1"])
def test_the_table_is_written_by_upstreams_script(family: str, folder: str, version: str) -> None:
    """Of the folder that holds the tokenizer, into one that no later step writes."""
    words = ["--model_dir", folder, "--output_dir", "build/tokenizer_table"]
    assert _argv(_built(family, version=version)) == ["python3", SCRIPT, *words]


def test_the_table_is_that_of_a_tokenizer_that_was_made() -> None:
    """Where the checkpoint has no file of one that servers read."""
    facts = facts_of("llava").model_copy(update={"sentence_piece_model": "tokenizer.model"})
    plan = planned("llava", version="1.2.1", facts=facts)
    assert "build/engines/tokenizer" in (_argv(plan.build_plan) or [])


@cases(
    "family engine version",
    {
        "older": ("llava", {}, "1.1.0"),
        "encoder-decoder": ("t5", {}, "1.2.1"),
        "beams": ("llava", {"maxBeamWidth": 2}, "1.2.1"),
        "off": ("llava", {"guidedDecoding": "Off"}, "1.2.1"),
    },
)
def test_others_have_none(family: str, engine: dict[str, Any], version: str) -> None:
    assert _argv(_built(family, engine, version)) is None


def test_engines_that_were_built_before_stay() -> None:
    """With a table and without: one fingerprint, so no engine is built again for it."""
    with_table = _built("llava")
    before = with_table.model_copy(
        update={"trtllm": with_table.trtllm.model_copy(update={"tokenizer_info": None})}
    )
    assert fingerprint_of(before) == with_table.fingerprint
    # A spec that switches it off has another engine, which is left when it is on again.
    assert _built("llava", {"guidedDecoding": "Off"}).fingerprint != with_table.fingerprint


@pytest.mark.parametrize(("guided", "backend"), [("Auto", "xgrammar"), ("Off", None)])
def test_trtllm_serve_has_the_option(guided: str, backend: str | None) -> None:
    engine = {"backend": "PyTorch", "guidedDecoding": guided}
    plan = planned("qwen2-vl", engine, version="1.2.1")
    assert plan.errors == []
    assert plan.serve.options.get("guided_decoding_backend") == backend
    assert (
        plan.fingerprint == planned("qwen2-vl", {"backend": "PyTorch"}, version="1.2.1").fingerprint
    )
