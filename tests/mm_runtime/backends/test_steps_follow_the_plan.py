"""A plan says which steps there are; nothing is run to find out."""

from pathlib import Path

import pytest

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.build_result import BuildReason
from mm_api.documents.trtllm_build import Command, EngineCommand, GpuModel, TrtllmBuild
from mm_runtime.backends import steps
from mm_runtime.cli import main
from mm_runtime.errors import PermanentError
from support.build_plans import build_plan
from support.cases import cases
from support.documents import FACTS

PLAN = build_plan(FACTS)
assert PLAN.engine.vision is not None
PICKLED = build_plan(FACTS.model_copy(update={"weight_format": "pickle"}), allow_pickle=True)


def without_vision(plan: BuildPlan) -> BuildPlan:
    return plan.model_copy(update={"engine": plan.engine.model_copy(update={"vision": None})})


def served_by(backend: str, plan: BuildPlan = PLAN, **engine: object) -> BuildPlan:
    changes = {"backend": backend, **engine}
    return plan.model_copy(update={"engine": plan.engine.model_copy(update=changes)})


@cases(
    "plan expected",
    {
        "llava": (PLAN, ("fetch", "export-vision", "verify-vision", "evaluation")),
        "pickled-llava": (
            PICKLED,
            ("fetch", "unpickle", "export-vision", "verify-vision", "evaluation"),
        ),
        "text-only": (without_vision(PLAN), ("fetch", "verify-weights", "evaluation")),
        "disaggregated-encoders": (
            served_by("VLLM", disaggregated_encoders="On", evaluation="Off"),
            ("fetch", "export-vision", "verify-vision"),
        ),
        "staged": (served_by("PyTorch"), ("fetch", "verify-weights", "evaluation")),
        "pickles": (
            served_by("PyTorch", PICKLED),
            ("fetch", "unpickle", "verify-weights", "evaluation"),
        ),
    },
)
def test_names_and_order(plan: BuildPlan, expected: tuple[str, ...]) -> None:
    assert expected == tuple(step.name for step in steps(plan))


def test_inputs_are_made_before() -> None:
    made: set[str] = set()
    for step in steps(PICKLED):
        assert set(step.inputs) <= made
        made |= set(step.outputs)


@cases(
    "other",
    {
        "fingerprint": PLAN.model_copy(update={"fingerprint": "f" * 64}),
        "builder-version": PLAN.model_copy(
            update={"engine": PLAN.engine.model_copy(update={"builder_version": "2"})}
        ),
    },
)
def test_fingerprints_follow_the_plan(other: BuildPlan) -> None:
    """A journal entry of another plan or builder never counts as done."""
    here = {step.fingerprint for step in steps(PLAN)}
    assert not here & {step.fingerprint for step in steps(other)}


def test_plans_without_commands_are_refused() -> None:
    with pytest.raises(PermanentError, match="has no commands"):
        steps(served_by("TensorRT"))


def test_verification_has_its_own_reason() -> None:
    reasons = {step.name: step.permanent_reason for step in steps(PLAN)}
    expected = {
        "fetch": BuildReason.SOURCE_NOT_FOUND,
        "export-vision": BuildReason.STEP_FAILED,
        "verify-vision": BuildReason.VERIFICATION_FAILED,
        "evaluation": BuildReason.STEP_FAILED,
    }
    assert expected == reasons


def test_dry_run_prints_the_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.json"
    path.write_text(PLAN.to_json())
    where = ["--source", "/mnt/source", "--store", str(tmp_path / "store")]
    code = main(["build", "--plan", str(path), *where, "--dry-run"])
    printed = capsys.readouterr().out
    expected = steps(PLAN)
    assert code == 0
    assert all(f"{step.name}: {step.purpose}" in printed for step in expected)
    assert all(step.module in printed for step in expected)
    assert not (tmp_path / "store").exists()


def _commands(*, pipeline: int = 1) -> TrtllmBuild:
    checkpoint = ["--model_dir", "checkpoint", "--output_dir", "build/converted"]
    return TrtllmBuild(
        version="1.0.0",
        pipeline_parallel=pipeline,
        gpu=GpuModel(product="NVIDIA-L40S", memory_bytes=1, compute_capability="8.9"),
        convert=Command(argv=["convert", *checkpoint, "--pp_size", str(pipeline)]),
        engines=[
            EngineCommand(name="llm", argv=["trtllm-build", "--output_dir", "build/engines/llm"])
        ],
    )


def _trtllm(commands: TrtllmBuild) -> BuildPlan:
    engine = PLAN.engine.model_copy(update={"backend": "TensorRT", "vision": None})
    return PLAN.model_copy(update={"engine": engine, "trtllm": commands})


def test_pickles_need_consent() -> None:
    changes = {"facts": PICKLED.facts, "allow_pickle": False}
    for plan in (served_by("PyTorch"), _trtllm(_commands())):
        with pytest.raises(PermanentError, match=r"set spec\.model\.allowPickle"):
            steps(plan.model_copy(update=changes))


@cases(
    "plan comparing",
    {
        "TensorRT": (_trtllm(_commands()), "verify-weights"),
        "PyTorch": (served_by("PyTorch"), "verify-weights"),
        "VLLM": (served_by("VLLM"), "verify-weights"),
        "Reference": (PLAN, "export-vision"),
        "Reference-of-texts": (without_vision(PLAN), "verify-weights"),
    },
)
def test_weights_are_compared_without_an_evaluation(plan: BuildPlan, comparing: str) -> None:
    """After they were fetched and before anything is made of them."""
    off = plan.engine.model_copy(update={"evaluation": "Off"})
    names = [step.name for step in steps(plan.model_copy(update={"engine": off}))]
    assert names[names.index("fetch") + 1] == comparing
    assert "evaluation" not in names


def test_each_stage_of_a_pipeline_has_its_files() -> None:
    expected = {
        step.name: step.expected[0].files[1:]
        for step in steps(_trtllm(_commands(pipeline=2)))
        if step.command
    }
    assert expected == {
        "convert": ("rank0.safetensors", "rank1.safetensors"),
        "build-llm": ("rank0.engine", "rank1.engine"),
    }


def test_commands_are_printed_word_for_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = _trtllm(_commands())
    path = tmp_path / "plan.json"
    path.write_text(plan.to_json())
    where = ["--source", "/mnt/source", "--store", str(tmp_path / "store")]
    assert main(["build", "--plan", str(path), *where, "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert plan.trtllm is not None
    for command in (plan.trtllm.convert, *plan.trtllm.engines):
        assert " ".join(command.argv) in printed
