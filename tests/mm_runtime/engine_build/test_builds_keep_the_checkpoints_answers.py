"""A build keeps what transformers answers, token by token, and costs no build where it cannot."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSeq2SeqLM

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.engine_manifest import MANIFEST_NAME, EngineManifest
from mm_api.documents.evaluation import EVALUATION_NAME, Evaluation
from mm_api.evaluation import evaluation_cost
from mm_runtime.engine_build.build_paths import BuildPaths
from mm_runtime.engine_build.commands import evaluation as step
from mm_runtime.engine_build.commands.evaluation import keep_evaluation
from mm_runtime.engine_build.commands.fetch import fetch
from mm_runtime.engine_build.commands.step import StepContext
from mm_runtime.gateway.warmup.evaluation import read_comparison
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from mm_runtime.serving.prompts.tokens import TextCodec
from support.cases import cases
from support.families.pipeline import plan_of
from support.model_configs import facts_of, planned
from support.tiny_llava import ADAPTERS, CHECKPOINT, BuiltEngine, build_adapted
from support.tiny_t5 import CHECKPOINT as TEXT_CHECKPOINT


def fetched(folder: Path) -> StepContext:
    plan = plan_of(inspect(TEXT_CHECKPOINT, InspectOptions()))
    paths = BuildPaths(folder, plan.fingerprint)
    for made in paths.folders:
        made.mkdir(parents=True)
    context = StepContext(plan, str(TEXT_CHECKPOINT), paths)
    fetch(context)
    return context


@pytest.mark.timeout(600)
def test_tokens_and_logits_are_those_of_transformers(tmp_path: Path) -> None:
    context = fetched(tmp_path)
    keep_evaluation(context)
    kept = Evaluation.from_json(context.paths.evaluation.read_bytes())
    assert (kept.fingerprint, kept.dtype) == (context.plan.fingerprint, "float32")
    assert len(kept.prompts) >= 4
    codec = TextCodec(context.paths.processor)
    model = AutoModelForSeq2SeqLM.from_pretrained(TEXT_CHECKPOINT, dtype=torch.float32).eval()
    for prompt in kept.prompts:
        answer = [one.candidates[0].token for one in prompt.steps]
        decoder = [model.config.decoder_start_token_id, *answer[:-1]]
        with torch.inference_mode():
            logits = model(
                input_ids=torch.tensor([codec.encode_prompt(prompt.text)]),
                decoder_input_ids=torch.tensor([decoder]),
            ).logits[0]
        assert logits.argmax(-1).tolist() == answer
        for row, one in zip(logits.numpy(), prompt.steps, strict=True):
            tokens = [candidate.token for candidate in one.candidates]
            assert np.allclose(row[tokens], [c.logit for c in one.candidates], atol=1e-3)
            assert one.spread == pytest.approx(row.std(), rel=1e-3)
            assert min(row[tokens]) >= np.sort(row)[-len(tokens)] - 1e-3
        assert prompt.steps[-1].candidates[0].text.startswith(prompt.steps[0].candidates[0].text)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_manifest_covers_the_answers(tmp_path: Path) -> None:
    """`mm-runtime build` with an adapter: prompts of both, in a file that pods verify."""
    engine = build_adapted(tmp_path, CHECKPOINT, ADAPTERS, {})
    manifest = EngineManifest.from_json(engine.manifest.read_bytes())
    assert EVALUATION_NAME in {one.path for one in manifest.files}
    assert "evaluation" in {one.name for one in manifest.steps}
    kept = Evaluation.from_json((engine.directory / EVALUATION_NAME).read_bytes())
    assert [one.adapter for one in kept.prompts] == [None] * 6 + [0] * 2
    assert {one.image for one in kept.prompts} == {0, 1, 2}
    _refuses_what_is_not_bounded(engine, manifest)


def _refuses_what_is_not_bounded(engine: BuiltEngine, manifest: EngineManifest) -> None:
    path = engine.directory / EVALUATION_NAME
    kept = path.read_bytes()
    assert read_comparison(engine.directory, manifest) is not None
    path.write_bytes(kept + b" " * (1 << 20))
    with pytest.raises(ValueError, match="more than"):
        read_comparison(engine.directory, manifest)
    path.write_text(json.dumps({**json.loads(kept), "fingerprint": "f" * 64}))
    with pytest.raises(ValueError, match="another engine"):
        read_comparison(engine.directory, manifest)
    without = [one for one in manifest.files if one.path != EVALUATION_NAME]
    assert read_comparison(engine.directory, manifest.model_copy(update={"files": without})) is None
    assert (engine.directory / MANIFEST_NAME).is_file()


@cases("spare kept", {"fits": (0, True), "too-little": (-1, False)})
@pytest.mark.timeout(600)
def test_a_tight_limit_costs_the_answers_and_not_the_build(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    spare: int,
    *,
    kept: bool,
) -> None:
    """The kernel would kill the step; it is left out by name instead."""
    context = fetched(tmp_path)
    cost = _cost(context.plan)
    monkeypatch.setattr(step, "memory_limit", lambda: cost + spare)
    keep_evaluation(context)
    assert kept == context.paths.evaluation.is_file()
    assert kept != ("EvaluationSkipped" in caplog.text)


def _cost(plan: BuildPlan) -> int:
    cost = evaluation_cost(plan.engine, plan.facts)
    assert cost is not None
    return cost.memory_bytes


def test_the_plan_says_what_the_limit_is_too_small_for() -> None:
    """13.5 GB of LLaVA-1.5-7B in 6 GiB."""
    free = planned("llava")
    tight = planned("llava", build={"resources": {"limits": {"memory": "6Gi"}}})
    assert free.evaluation is not None
    assert free.evaluation == tight.evaluation
    assert free.evaluation.memory_bytes > facts_of("llava").weight_bytes
    codes = [{one.code for one in plan.warnings} for plan in (free, tight)]
    assert ["EvaluationSkipped" in one for one in codes] == [False, True]
