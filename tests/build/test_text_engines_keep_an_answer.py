"""Small engines that read text alone are asked by their build, and keep what they are sure of."""

from pathlib import Path

import pytest

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.engine_manifest import EngineManifest
from mm_runtime.build.golden import MOST_WEIGHT_BYTES, is_asked
from mm_runtime.build.places import Places
from mm_runtime.build.steps import steps
from mm_runtime.engine.directory import EngineDirectory
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from support.families.pipeline import Pipeline, plan_of
from support.killed_builders import run_builder
from support.model_configs import facts_of
from support.tiny_t5 import CHECKPOINT


def plan_for(family: str, *, backend: str = "Reference", weight_bytes: int = 1 << 20) -> BuildPlan:
    """Return the plan of a family's published model, as if it had so many bytes."""
    plan = plan_of(facts_of(family).model_copy(update={"weight_bytes": weight_bytes}))
    return plan.model_copy(update={"engine": plan.engine.model_copy(update={"backend": backend})})


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        pytest.param(plan_for("t5"), True, id="text"),
        pytest.param(plan_for("bart", weight_bytes=MOST_WEIGHT_BYTES), True, id="as-large-as-may"),
        pytest.param(plan_for("bart", weight_bytes=MOST_WEIGHT_BYTES + 1), False, id="too-large"),
        pytest.param(plan_for("llava"), True, id="pictures"),
        pytest.param(plan_for("whisper"), False, id="sounds"),
        pytest.param(plan_for("t5", backend="TensorRT"), False, id="needs-a-gpu"),
        pytest.param(plan_for("llava", backend="PyTorch"), False, id="trtllm-serve"),
    ],
)
def test_what_can_be_asked_is_asked(plan: BuildPlan, *, expected: bool) -> None:
    """Only what the build itself can run within an export's memory; text by a step of its own."""
    assert expected == is_asked(plan)
    if plan.engine.backend == "Reference":
        alone = expected and plan.engine.vision is None
        assert alone == ("golden-prompt" in {step.name for step in steps(plan)})


@pytest.mark.timeout(600)
def test_the_answer_is_the_engines_own(tmp_path: Path) -> None:
    """A build that was killed while it asked ends with what the served engine answers, greedily."""
    plan = plan_of(inspect(CHECKPOINT, InspectOptions()))
    path, store, word = tmp_path / "plan.json", tmp_path / "store", tmp_path / "word"
    path.write_text(plan.to_json())
    arguments = ["build", "--plan", str(path), "--source", str(CHECKPOINT), "--store", str(store)]
    run_builder(arguments, word, kill_at="step 2/2 golden-prompt")
    result = run_builder(arguments, word)
    assert result is not None
    assert list(result.step_seconds) == ["fetch", "golden-prompt"]

    directory = EngineDirectory.open(Places(store, plan.fingerprint).engine)
    golden = EngineManifest.from_json((directory.root / "manifest.json").read_bytes()).golden
    assert golden is not None
    assert golden.pictures == 0
    pipeline = Pipeline.load(directory)
    try:
        answer = pipeline.ask(golden.text)[: len(golden.tokens)]
    finally:
        pipeline.loaded.engine.stop()
    assert golden.tokens == answer
    assert golden.answer == pipeline.preprocessor.codec.decode(answer)
