"""Backend PyTorch: a command of trtllm-serve and its file, right for each version and family."""

from dataclasses import replace
from typing import Any

import pytest

from mm_api.documents.model_plan import ModelPlan
from mm_api.families import FAMILIES
from mm_api.families.family import PyTorchServing
from mm_operator.plan.engine.tables import flags_of, version_of
from support.cases import cases
from support.model_configs import ON_PYTORCH, facts_of, planned, planned_on_pytorch

VERSIONS = ("1.0.0", "1.1.0", "1.2.1", "1.3.0rc20")


def since(family: str) -> str:
    served = FAMILIES[family].pytorch
    return served.since or VERSIONS[0]


def served(family: str = "qwen2-vl", version: str = "1.1.0", **engine: Any) -> ModelPlan:
    plan = planned_on_pytorch(family, version, **engine)
    assert plan.errors == []
    return plan


@pytest.mark.parametrize(
    ("family", "version"),
    [
        (family, one)
        for family in ON_PYTORCH
        for one in VERSIONS
        if version_of(one) >= version_of(since(family))
    ],
)
def test_every_flag_exists(family: str, version: str) -> None:
    plan = served(family, version, parallelism={"tensor": 2})
    used = {word[2:] for word in plan.serve.argv if word.startswith("--")}
    assert used - flags_of("trtllm-serve", version_of(version)) == set()
    assert "tp_size" in used


def test_a_version_without_the_class_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below the first version that is documented to serve the family, that one is named."""
    record = FAMILIES["qwen2-vl"]
    newer = replace(record, pytorch=PyTorchServing(images=True, since="1.2.0"))
    monkeypatch.setitem(FAMILIES, "qwen2-vl", newer)
    (refused,) = planned_on_pytorch("qwen2-vl", "1.1.0").errors

    assert (refused.code, refused.path) == ("BackendTooOld", "spec.engine.backend")
    assert "serves qwen2-vl since 1.2.0, and the image has 1.1.0" in refused.message
    assert planned_on_pytorch("qwen2-vl", "1.2.1").errors == []


def test_triton_has_the_same_llm_where_it_is_published() -> None:
    """Fields of LlmArgs instead of flags, and the guide's `triton_config`; since 1.2."""

    def published(version: str) -> ModelPlan:
        engine = {"backend": "PyTorch", **ON_PYTORCH["qwen2-vl"], "parallelism": {"tensor": 2}}
        runtime = {"triton": {"expose": True}, "gpu": {"count": 2}}
        return planned("qwen2-vl", engine, version=version, model={}, runtime=runtime)

    alone = served(version="1.2.1", parallelism={"tensor": 2}).serve
    plan = published("1.2.1")
    options = plan.serve.options
    triton = {"max_batch_size": 0, "decoupled": False, "multimodal": True}
    assert (options["triton_config"], options["tensor_parallel_size"]) == (triton, 2)
    assert options.items() >= alone.options.items()
    assert (alone.port, plan.serve.port) == (8000, 8003)
    assert plan.serve.argv[:2] == ["trtllm-llmapi-launch", "tritonserver"]
    assert [error.code for error in published("1.1.0").errors] == ["BackendTooOld"]


def test_images_are_as_many_as_the_class_takes() -> None:
    """Qwen2-VL's class takes several, where Triton's models take one; LLaVA-NeXT's takes one."""
    plan = served("qwen2-vl", maxImagesPerRequest=4)
    (two,) = planned_on_pytorch("llava-next", "1.1.0", maxImagesPerRequest=2).errors

    assert plan.limits.max_images_per_request == 4
    assert (two.code, two.path) == ("TooManyImages", "spec.engine.maxImagesPerRequest")


def test_limits_reach_the_server() -> None:
    plan = served(maxBatchSize=3)
    argv = plan.serve.argv
    reported = {
        flag: argv[argv.index(f"--{flag}") + 1] for flag in ("max_batch_size", "max_seq_len")
    }

    assert reported == {"max_batch_size": "3", "max_seq_len": str(plan.limits.max_seq_len)}
    assert plan.serve.options["max_input_len"] == plan.limits.max_input_len
    assert plan.serving_plan.trtllm_serve == plan.serve
    assert (plan.convert, plan.engines) == (None, [])
    assert "PyTorchEstimate" in [warning.code for warning in plan.warnings]


def test_a_server_of_a_version_gets_fields_of_that_version() -> None:
    """return_perf_metrics came with 1.1; 1.0 would refuse it."""
    old, new = served(version="1.0.0").serve, served(version="1.1.0").serve

    assert {"return_perf_metrics"} == set(new.options) - set(old.options)


@cases(
    "other",
    {
        "version": {"version": "1.2.1"},
        "limits": {"maxBatchSize": 2},
        "ranks": {"parallelism": {"tensor": 2}},
    },
)
def test_serving_changes_no_fingerprint(other: dict[str, Any]) -> None:
    """The staged files are the checkpoint's, however they are served."""
    assert served(**other).fingerprint == served().fingerprint


def test_another_checkpoint_is_staged_again() -> None:
    facts = facts_of("qwen2-vl").model_copy(update={"source_digest": "sha256:" + "1" * 64})
    other = planned("qwen2-vl", {"backend": "PyTorch"}, version="1.1.0", facts=facts, model={})

    assert other.fingerprint != served().fingerprint


def test_types_are_the_checkpoints_own() -> None:
    """trtllm-serve computes in what config.json says, whatever engines of the family are."""
    plan = served()

    assert (facts_of("qwen2-vl").dtype, "the checkpoint's own") == (
        plan.dtype,
        next(one.reason for one in plan.reasons if one.field == "dtype"),
    )


@pytest.mark.parametrize("family", ON_PYTORCH)
def test_videos_are_refused(family: str) -> None:
    (error,) = planned_on_pytorch(family, "1.2.1", maxVideoFrames=2).errors
    assert (error.code, error.path) == ("VideoNotSupported", "spec.engine.maxVideoFrames")


def test_backends_with_videos_are_named() -> None:
    (error,) = planned_on_pytorch("qwen2-vl", "1.2.1", maxVideoFrames=2).errors
    assert "use backend VLLM or Reference" in error.message
