"""What fails for a known reason is refused before a GPU is requested; doubts are warnings."""

from typing import Any

import pytest

from mm_api.documents.model_plan import ModelPlan
from mm_api.gateway_memory import gateway_bytes
from mm_operator.plan.engine.plan import exposure_warnings
from support.cases import cases
from support.model_configs import facts_of, planned, planned_on_pytorch, reference_plan
from support.model_documents import at, merged
from support.models import spec_of, tiny_facts

FLAGS = "engine.extraBuildArgs"
SERVED: dict[str, Any] = {"version": "1.1.0", "engine": {"backend": "PyTorch"}}
SHORT = at("engine.maxSeqLen", 2560)
ADAPTER = [{"name": "one", "source": {"persistentVolumeClaim": {"claimName": "adapters"}}}]
KEYS = {"gateway": {"authSecretRef": {"name": "keys"}}}

FIELDS: tuple[tuple[Any, ...], ...] = (
    ("llava", "FamilyMismatch", "model.family", "vila", "llava"),
    ("mllama", "BackendTextOnly", "engine.maxImagesPerRequest", None, 0, SERVED),
    ("qwen2-vl", "LoraNotApplied", "engine.lora", ADAPTER, None, SERVED),
    ("qwen2-vl", "BeamsNotServed", "engine.maxBeamWidth", 2, 1, SERVED),
    ("qwen2-vl", "DtypeNotServed", "engine.dtype", "float16", "bfloat16", SERVED),
    ("qwen2-vl", "NothingIsBuilt", "engine.plugins", {"gemm_plugin": "auto"}, None, SERVED),
    ("qwen2-vl", "NothingIsBuilt", FLAGS, ["--fast_build"], None, SERVED),
    ("flan-t5", "DtypeNotSupported", "engine.dtype", "float16", "float32"),
    ("blip2-opt", "QuantizationNotSupported", "engine.quantization", "INT4AWQ", "INT4WeightOnly"),
    ("flan-t5", "TensorParallelHeads", "engine.parallelism.tensor", 4, 3),
    ("qwen2-vl", "TensorParallelKeyValueHeads", "engine.parallelism.tensor", 7, 4),
    ("whisper", "TensorParallel", "engine.parallelism.tensor", 2, None),
    ("mllama", "PipelineParallel", "engine.parallelism", {"pipeline": 2}, {"tensor": 2}),
    ("t5", "PipelineParallel", "engine.parallelism", {"pipeline": 2}, {"tensor": 2}),
    ("llava", "PipelineParallelLayers", "engine.parallelism.pipeline", 3, 2),
    ("llava", "GpuCount", "runtime.gpu.count", 2, 1),
    ("qwen2-vl", "TooManyImages", "engine.maxImagesPerRequest", 2, 1),
    ("llava", "NumTokensBelowInputLen", "engine.maxNumTokens", 1024, 2048),
    ("bart", "NumTokensBelowBatch", "engine.maxNumTokens", 7, 8),
    ("llava", "NoEncoder", "engine.maxEncoderInputLen", 100, None),
    ("llava", "NoCrossAttention", "engine.kvCache.crossFraction", "0.5", None),
    ("llava", "PluginUnknown", "engine.plugins", {"fast": "on"}, {"use_fused_mlp": "enable"}),
    ("t5", "PluginOfFamily", "engine.plugins.context_fmha", "enable", "disable"),
    ("t5", "PluginOfFamily", FLAGS, ["--context_fmha", "enable"], ["--context_fmha=disable"]),
    ("llava", "PluginDtype", "engine.plugins.gpt_attention_plugin", "bfloat16", "float16"),
    ("llava", "PluginDtype", FLAGS, ["--gpt_attention_plugin=bfloat16"], ["--dry_run"]),
    ("llava", "FlagIsPlanned", FLAGS, ["--max_batch_size=4"], ["--dry_run"]),
    ("llava", "SeqLenAbovePositions", "engine.maxSeqLen", 4097, 4096),
    ("llava", "InputLenNotBelowSeqLen", "engine.maxInputLen", 2560, 2559, SHORT),
    ("llava", "InputLenTooShort", "engine.maxInputLen", 592, 593),
    ("bart", "EncoderInputLenAbovePositions", "engine.maxEncoderInputLen", 1025, 1024),
    ("bart", "DecoderInputLen", "engine.maxInputLen", 1, 3),
    ("llava", "VideoNotSupported", "engine.maxVideoFrames", 8, None),
    ("llava", "PoolTooSmall", "runtime.memoryPools.cuda", "135Mi", "136Mi"),
    ("mllama", "ReuseOfCrossAttention", "engine.kvCache.reuse", True, False),
    ("qwen2-vl", "ReuseOfRotations", "engine.kvCache.reuse", True, False),
    ("llava", "ReuseSharedByKeys", "engine.kvCache.reuse", True, None, KEYS),
    ("llava", "KvFractionTooLarge", "engine.kvCache.freeGpuMemoryFraction", "0.99", "0.9"),
)
"""Family, code, the field that is blamed, its wrong value, a right one (None: absent), the rest."""

BLAMED = {"PluginUnknown": "engine.plugins.fast", "PipelineParallel": "engine.parallelism.pipeline"}

PYTORCH, BFLOAT16 = at("engine.backend", "PyTorch"), at("engine.dtype", "bfloat16")
FLOAT32, FP8 = at("engine.dtype", "float32"), at("engine.quantization", "FP8")
AUTO = at(FLAGS, ["--auto_parallel", "2"])
CHOSEN: tuple[tuple[Any, ...], ...] = (
    ("llava", "BackendGone", "engine.backend", "version", "1.3.0", "1.3.0rc20"),
    ("llava", "VersionTooOld", "build.image", "version", "0.15.0", "0.16.0"),
    ("qwen2-vl", "FamilyNeedsNewer", "build.image", "version", "0.18.2", "0.19.0"),
    ("qwen2-vl", "BackendTooOld", "engine.backend", "version", "0.21.0", "1.0.0", PYTORCH),
    ("mllama", "DtypeNeedsGpu", "engine.dtype", "gpu", "t4-16gb", "a100-40gb"),
    ("llava", "TableDtype", "engine.dtype", "version", "0.19.0", "0.20.0", BFLOAT16),
    ("flan-t5", "GpuNotSupported", "runtime.gpu.product", "gpu", "v100-32gb", "t4-16gb", FLOAT32),
    ("llava", "Fp8NeedsGpu", "engine.quantization", "gpu", "a100-80gb", "l40s-48gb", FP8),
    ("llava", "FlagUnknown", FLAGS, "version", "1.0.0", "0.18.2", AUTO),
)
"""Family, code, field, what was chosen wrong and right, the rest."""

B200, OLD = {"gpu": "b200-180gb"}, {"version": "1.0.0"}
REUSE = at("engine.kvCache.reuse", value=True)
LOOKAHEAD = ["--speculative_decoding_mode", "lookahead_decoding"]
CHUNKED = at("runtime.triton.enableChunkedContext", value=True)
PAGED = at("engine.extraBuildArgs", ["--use_paged_context_fmha", "enable"])
FMHA, MANY = at("engine.plugins.context_fmha", "enable"), {"maxQueueSize": 4000}
OTHERS: tuple[tuple[str, str, str, dict[str, Any], dict[str, Any]], ...] = (
    ("bart", "BackendFamily", "engine.backend", OLD | PYTORCH, OLD),
    ("llava", "ChunkedContext", "runtime.triton.enableChunkedContext", CHUNKED, PAGED | CHUNKED),
    ("t5", "ChunkedContext", "runtime.triton.enableChunkedContext", CHUNKED, {}),
    ("vila", "BackendFamily", "engine.backend", OLD | PYTORCH, OLD),
    (
        *("llava", "GpuNotSupported", "runtime.gpu.product"),
        *(B200 | {"version": version} for version in ("0.16.0", "0.17.0")),
    ),
    (
        *("bart", "PluginOfFamily", "engine.plugins.context_fmha"),
        *(merged(at("engine.dtype", dtype), FMHA) for dtype in ("float32", "float16")),
    ),
    (
        *("llava", "LookaheadPromptTable", FLAGS),
        *(at(FLAGS, flags) for flags in (LOOKAHEAD, ["--max_draft_len", "3"])),
    ),
    (
        *("mllama", "PoolAboveGpuMemory", "runtime.memoryPools.cuda"),
        *({"runtime": {**MANY, "maxConcurrency": most}} for most in (4000, 400)),
    ),
    (
        *("llava", "ReuseWithBeams", "engine.kvCache.reuse"),
        *(merged(REUSE, at("engine.maxBeamWidth", width)) for width in (2, 1)),
    ),
    (
        *("qwen2-vl", "ReuseOfImages", "engine.kvCache.reuse"),
        *(
            merged(merged(SERVED, REUSE), {"engine": one})
            for one in ({}, {"maxImagesPerRequest": 0})
        ),
    ),
)
"""Family, code, field, what a wrong and what a right plan is made of."""


def _of_field(field: str, value: object, rest: dict[str, Any]) -> dict[str, Any]:
    return rest if value is None else merged(rest, at(field, value))


def _rows() -> list[Any]:
    found = list(OTHERS)
    for family, code, field, bad, good, *rest in FIELDS:
        sides = (_of_field(field, value, *(rest or ({},))) for value in (bad, good))
        found.append((family, code, BLAMED.get(code, field), *sides))
    for family, code, field, argument, bad, good, *rest in CHOSEN:
        found.append(
            (family, code, field, *({argument: one, **(rest or [{}])[0]} for one in (bad, good)))
        )
    return [pytest.param(*row, id=f"{row[1]}-{row[0]}") for row in found]


@pytest.mark.parametrize(("family", "code", "field", "bad", "good"), _rows())
def test_both_sides(
    family: str, code: str, field: str, bad: dict[str, Any], good: dict[str, Any]
) -> None:
    refused = planned(family, **bad)

    assert [error.code for error in refused.errors] == [code]
    assert refused.errors[0].path == f"spec.{field}"
    assert refused.engines == []
    assert planned(family, **good).errors == []


@pytest.mark.parametrize(
    ("family", "engine", "backends"),
    [
        ("llava", {}, "use TensorRT or Reference"),
        ("internvl", {}, "use VLLM"),
        ("mllama", {"maxImagesPerRequest": 1}, "use backend TensorRT or Reference"),
    ],
)
def test_every_backend_that_would_do_is_named(
    family: str, engine: dict[str, Any], backends: str
) -> None:
    """Of families that TensorRT-LLM on PyTorch does not serve, or without images."""
    (refused,) = planned(family, {"backend": "PyTorch", **engine}, version="1.2.1", model={}).errors

    assert refused.message.endswith(backends)


def test_every_problem_is_reported_at_once() -> None:
    plan = planned(
        "llava",
        {"quantization": "FP8", "parallelism": {"pipeline": 3}, "plugins": {"x": "y"}},
        gpu="a100-40gb",
    )

    assert {error.code for error in plan.errors} == {
        "Fp8NeedsGpu",
        "PipelineParallelLayers",
        "PluginUnknown",
    }


@pytest.mark.parametrize(("gpu", "expected"), [("t4-16gb", 1), ("a10g-24gb", 0)])
def test_gpus_outside_of_the_support_matrix_are_warned_about(gpu: str, expected: int) -> None:
    """TensorRT has code for Turing, and upstream does not test on it."""
    codes = [warning.code for warning in planned("whisper", gpu=gpu).warnings]

    assert codes.count("GpuNotListed") == expected


def test_heads_are_split_by_what_divides_them() -> None:
    (error,) = planned("flan-t5", {"parallelism": {"tensor": 4}}).errors

    assert error.message.endswith("6 heads cannot be split over 4 GPUs: use 1 or 2 or 3 or 6")


def test_class_token_is_not_kept() -> None:
    """A LLaVA that keeps the class token has one feature more than upstream's engine gives."""
    facts = facts_of("llava")
    full = facts.vision.model_copy(update={"feature_select": "full"})

    plan = planned("llava", facts=facts.model_copy(update={"vision": full}))

    assert [error.code for error in plan.errors] == ["FeatureSelect"]


def test_pickles_need_consent() -> None:
    facts = facts_of("llava").model_copy(update={"weight_format": "pickle"})

    refused = planned("llava", facts=facts, model={"allowPickle": False})

    assert [error.code for error in refused.errors] == ["PickleRefused"]
    assert planned("llava", facts=facts).errors == []


def test_notes_on_engines_are_of_engines() -> None:
    """What upstream's vision builder needs is not said of a backend that does not run it."""
    needs = [
        any("demo image" in one.message for one in planned("qwen2-vl", **arguments).warnings)
        for arguments in ({}, SERVED)
    ]
    assert needs == [True, False]


TOKENS = {"authSecretRef": {"name": "tokens", "key": "clients"}}
EXPOSED = {"triton": {"expose": True}}
NVIDIA = "nvcr.io/nvidia/tritonserver"


def _codes(image: str | None, **changes: Any) -> list[str]:
    return [one.code for one in exposure_warnings(spec_of(changes), image)]


@cases(
    "changes image expected",
    {
        "loopback": ({}, None, []),
        "loopback beside tokens": ({"gateway": TOKENS}, None, []),
        "published CPU image": ({"runtime": EXPOSED}, None, ["TritonOutdated"]),
        "published beside tokens": (
            {"runtime": EXPOSED, "gateway": TOKENS},
            None,
            ["TritonWithoutAuth", "TritonOutdated"],
        ),
        "before": ({}, f"{NVIDIA}:25.06-trtllm-python-py3", ["TritonOutdated"]),
        "fixed": ({}, f"{NVIDIA}:25.07-trtllm-python-py3", []),
        "own image": ({}, "example.org/own:1", []),
    },
)
def test_warnings(changes: dict[str, Any], image: str | None, expected: list[str]) -> None:
    assert expected == _codes(image, **changes)


CODE = "GatewayMemoryBelowBounds"


def _reference(gateway: dict[str, Any]) -> ModelPlan:
    return reference_plan(tiny_facts(), {"gateway": gateway})


def _tensorrt(gateway: dict[str, Any]) -> ModelPlan:
    return planned("llava", gateway=gateway)


def _reported(plan: ModelPlan) -> list[str]:
    return [one.message for one in plan.warnings if one.code == CODE]


def _pytorch(gateway: dict[str, Any]) -> ModelPlan:
    return planned_on_pytorch("qwen2-vl", "1.2.1", gateway=gateway)


@pytest.mark.parametrize("planner", [_reference, _tensorrt, _pytorch])
def test_the_limit_is_compared_with_the_plans_own_number(planner: Any) -> None:
    """At the bounds nothing is said; one byte below them a warning names what is needed."""
    serving = planner({}).serving_plan
    bounds = gateway_bytes(serving.gateway, encodes=serving.trtllm_serve is not None)

    def limited(count: int) -> dict[str, Any]:
        return {"resources": {"limits": {"memory": count}}}

    assert _reported(planner({})) == []
    assert _reported(planner(limited(bounds))) == []
    (message,) = _reported(planner(limited(bounds - 1)))
    assert f"bodies and decoders to {-(-bounds // 2**20)}Mi together" in message


def test_smaller_images_fit_into_less() -> None:
    resources = {"limits": {"memory": "2600Mi"}}
    assert _reported(_reference({"resources": resources}))
    assert not _reported(_reference({"resources": resources, "maxImagePixels": 25_000_000}))


def test_a_server_below_its_request_is_reported() -> None:
    """Backends on a GPU have no verdict of host memory: a warning names what is planned."""
    runtime = {"resources": {"limits": {"memory": "1Gi"}}}
    (message,) = [
        one.message
        for one in planned("llava", runtime=runtime).warnings
        if one.code == "ServerMemoryBelowPlan"
    ]
    assert "runtime.resources.limits.memory is 1Gi, but weights, caches" in message
