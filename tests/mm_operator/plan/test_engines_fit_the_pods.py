"""An engine of another GPU or TensorRT-LLM is refused with a message, before a container starts."""

from typing import Any

from mm_api.documents.build_result import BuildResult
from mm_api.documents.engine_manifest import GpuIdentity
from mm_api.documents.trtllm_build import Command, EngineCommand, GpuModel, TrtllmBuild
from mm_operator.model import BuildDecision, Step
from mm_operator.plan.decision import with_match
from support.build_plans import build_plan
from support.cases import cases
from support.models import tiny_facts

H100 = GpuIdentity(product="NVIDIA-H100-80GB-HBM3", compute_capability="9.0")
A100 = GpuIdentity(product="NVIDIA-A100-SXM4-80GB", compute_capability="8.0")
TRTLLM = TrtllmBuild(
    version="0.20.0",
    gpu=GpuModel(product=H100.product, memory_bytes=80 << 30, compute_capability="9.0"),
    convert=Command(argv=["convert"]),
    engines=[EngineCommand(name="llm", argv=["trtllm-build"])],
)


def judged(trtllm: TrtllmBuild | None, **made: Any) -> BuildDecision:
    plan = build_plan(tiny_facts()).model_copy(update={"trtllm": trtllm})
    result = BuildResult(fingerprint=plan.fingerprint, manifest_sha256="ab" * 32, **made)
    done = BuildDecision(Step.DONE, "BuildSucceeded", "built", result=result, record=result)
    return with_match(done, plan, "engine-x")


@cases(
    "trtllm made",
    {
        "no-gpu-planned": (None, {}),
        "equal": (TRTLLM, {"gpu": H100, "versions": {"tensorrt_llm": "0.20.0"}}),
        "nothing-reported": (TRTLLM, {}),
    },
)
def test_what_fits_is_served(trtllm: TrtllmBuild | None, made: dict[str, Any]) -> None:
    assert judged(trtllm, **made).step is Step.DONE


@cases(
    "made words",
    {
        "compute-capability": ({"gpu": A100}, ("8.0", "9.0", A100.product)),
        "version": ({"versions": {"tensorrt_llm": "0.18.0"}}, ("0.18.0", "0.20.0")),
    },
)
def test_what_does_not_fit_is_reported(made: dict[str, Any], words: tuple[str, ...]) -> None:
    decision = judged(TRTLLM, **made)
    assert (decision.step, decision.reason) == (Step.FAILED, "EngineMismatch")
    assert [word for word in (*words, "ConfigMap engine-x") if word not in decision.message] == []
    assert decision.record == decision.result
