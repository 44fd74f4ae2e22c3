"""Checkpoints that do not fit the build's memory are read layer by layer, for the same answers."""

from pathlib import Path

import pytest
import torch

from mm_api.documents.evaluation import Evaluation
from mm_api.evaluation import evaluation_cost
from mm_runtime.engine_build.build_paths import BuildPaths
from mm_runtime.engine_build.commands import evaluation as step
from mm_runtime.engine_build.commands.evaluation import keep_evaluation
from mm_runtime.engine_build.commands.fetch import fetch
from mm_runtime.engine_build.commands.step import StepContext
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from mm_runtime.reference_engine.streaming import places
from support.families import images
from support.families.pipeline import plan_of
from support.model_configs import facts_of, planned
from support.tiny_llava import CHECKPOINT

GIB = 1 << 30


def fetched(folder: Path, checkpoint: Path) -> StepContext:
    """Return a build of an engine of TensorRT-LLM that has fetched its checkpoint."""
    plan = plan_of(inspect(checkpoint, InspectOptions()))
    engine = plan.engine.model_copy(update={"backend": "TensorRT"})
    plan = plan.model_copy(update={"engine": engine})
    paths = BuildPaths(folder, plan.fingerprint, checkpoint="checkpoint")
    for made in paths.folders:
        made.mkdir(parents=True, exist_ok=True)
    context = StepContext(plan, str(checkpoint), paths)
    fetch(context)
    return context


def answers(context: StepContext) -> Evaluation:
    keep_evaluation(context)
    return Evaluation.from_json(context.paths.evaluation.read_bytes())


@pytest.mark.timeout(600)
@pytest.mark.parametrize("family", ["llava", "qwen2-vl", "mllama"])
def test_streamed_answers_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    """Token for token and logit for logit, with layers that are never in memory together."""
    checkpoint = CHECKPOINT if family == "llava" else images.write(family, tmp_path / "source")
    context = fetched(tmp_path / "store", checkpoint)
    unstreamed = answers(context)
    assert not context.paths.streamed.exists()
    cost = evaluation_cost(context.plan.engine, context.plan.facts, 1)
    assert cost is not None
    assert cost.mode == "Streamed"
    monkeypatch.setattr(step, "memory_limit", lambda: cost.memory_bytes)
    assert answers(context) == unstreamed
    assert context.paths.streamed.exists()


def test_layers_stay_on_disk(tmp_path: Path) -> None:
    import transformers  # noqa: PLC0415 (seconds)

    kind = transformers.LlavaForConditionalGeneration
    model = kind.from_pretrained(
        CHECKPOINT, dtype=torch.float32, **places(kind, CHECKPOINT, tmp_path)
    )
    parts = model.model.language_model
    assert {one.device.type for one in parts.layers.parameters()} == {"meta"}
    assert {one.device.type for one in parts.embed_tokens.parameters()} == {"cpu"}
    assert {one.device.type for one in model.lm_head.parameters()} == {"cpu"}


def test_the_plan_states_the_mode_that_fits() -> None:
    """13.5 GB of LLaVA-1.5-7B in 6 GiB: layers are streamed, and without a limit they are not."""
    facts = facts_of("llava")
    free = planned("llava")
    tight = planned("llava", build={"resources": {"limits": {"memory": "6Gi"}}})
    assert free.evaluation is not None
    assert tight.evaluation is not None
    assert (free.evaluation.mode, tight.evaluation.mode) == (None, "Streamed")
    assert free.evaluation.memory_bytes > facts.weight_bytes
    assert tight.evaluation.memory_bytes < 5 * GIB
    assert "EvaluationSkipped" not in {one.code for one in tight.warnings}
    least = planned("llava", build={"resources": {"limits": {"memory": "2Gi"}}})
    assert "EvaluationSkipped" in {one.code for one in least.warnings}


def test_matrices_that_adapters_change_are_in_memory() -> None:
    """An encoder-decoder is, too: its limit is warned of as before."""
    plan = planned("t5").build_plan
    assert plan is not None
    cost = evaluation_cost(plan.engine, plan.facts, 1)
    assert cost is not None
    assert cost.mode is None
