"""What fails on a GPU for a known reason is refused before one is requested, and only that."""

from typing import Any

import pytest

from support.model_configs import facts_of, planned


def case(code: str, path: str, family: str, bad: dict[str, Any], good: dict[str, Any]) -> object:
    """Return one row: a code, the field it blames, and both sides."""
    return pytest.param(code, path, family, bad, good, id=code)


def engine(**fields: Any) -> dict[str, Any]:
    return {"engine": fields}


def served(**fields: Any) -> dict[str, Any]:
    return {"version": "1.1.0", **engine(backend="PyTorch", **fields)}


CASES = [
    case(
        "FamilyMismatch",
        "spec.model.family",
        "llava",
        {"model": {"family": "vila"}},
        {"model": {"family": "llava"}},
    ),
    case(
        "BackendGone",
        "spec.engine.backend",
        "llava",
        {"version": "1.3.0"},
        {"version": "1.3.0rc20"},
    ),
    case(
        "VersionTooOld", "spec.build.image", "llava", {"version": "0.15.0"}, {"version": "0.16.0"}
    ),
    case(
        "FamilyNeedsNewer",
        "spec.build.image",
        "qwen2-vl",
        {"version": "0.18.2"},
        {"version": "0.19.0"},
    ),
    case(
        "BackendTooOld",
        "spec.engine.backend",
        "qwen2-vl",
        {"version": "0.21.0", **engine(backend="PyTorch")},
        {"version": "1.0.0", **engine(backend="PyTorch")},
    ),
    case(
        "BackendFamily",
        "spec.engine.backend",
        "bart",
        {"version": "1.0.0", **engine(backend="PyTorch")},
        {"version": "1.0.0"},
    ),
    case(
        "BackendFamily",
        "spec.engine.backend",
        "vila",
        {"version": "1.0.0", **engine(backend="PyTorch")},
        {"version": "1.0.0"},
    ),
    case(
        "BackendTextOnly",
        "spec.engine.maxImagesPerRequest",
        "mllama",
        served(),
        served(maxImagesPerRequest=0),
    ),
    case(
        "QuantizationNotStaged",
        "spec.engine.quantization",
        "qwen2-vl",
        served(quantization="INT4AWQ"),
        served(quantization="FP8"),
    ),
    case(
        "BeamsNotServed",
        "spec.engine.maxBeamWidth",
        "qwen2-vl",
        served(maxBeamWidth=2),
        served(maxBeamWidth=1),
    ),
    case(
        "DtypeNotServed",
        "spec.engine.dtype",
        "qwen2-vl",
        served(dtype="float16"),
        served(dtype="bfloat16"),
    ),
    case(
        "NothingIsBuilt",
        "spec.engine.plugins",
        "qwen2-vl",
        served(plugins={"gemm_plugin": "auto"}),
        served(),
    ),
    case(
        "NothingIsBuilt",
        "spec.engine.extraBuildArgs",
        "qwen2-vl",
        served(extraBuildArgs=["--fast_build"]),
        served(),
    ),
    case(
        "DtypeNotSupported",
        "spec.engine.dtype",
        "flan-t5",
        engine(dtype="float16"),
        engine(dtype="float32"),
    ),
    case("DtypeNeedsGpu", "spec.engine.dtype", "mllama", {"gpu": "t4-16gb"}, {"gpu": "a100-40gb"}),
    case(
        "TableDtype",
        "spec.engine.dtype",
        "llava",
        {"version": "0.19.0", **engine(dtype="bfloat16")},
        {"version": "0.20.0", **engine(dtype="bfloat16")},
    ),
    case(
        "QuantizationNotSupported",
        "spec.engine.quantization",
        "blip2-opt",
        engine(quantization="INT4AWQ"),
        engine(quantization="INT4WeightOnly"),
    ),
    case(
        "GpuNotSupported",
        "spec.runtime.gpu.product",
        "llava",
        {"version": "0.16.0", "gpu": "b200-180gb"},
        {"version": "0.17.0", "gpu": "b200-180gb"},
    ),
    case(
        "GpuNotSupported",
        "spec.runtime.gpu.product",
        "flan-t5",
        {"gpu": "v100-32gb", **engine(dtype="float32")},
        {"gpu": "t4-16gb", **engine(dtype="float32")},
    ),
    case(
        "Fp8NeedsGpu",
        "spec.engine.quantization",
        "llava",
        {"gpu": "a100-80gb", **engine(quantization="FP8")},
        {"gpu": "l40s-48gb", **engine(quantization="FP8")},
    ),
    case(
        "TensorParallelHeads",
        "spec.engine.parallelism.tensor",
        "flan-t5",
        engine(parallelism={"tensor": 4}),
        engine(parallelism={"tensor": 3}),
    ),
    case(
        "TensorParallelKeyValueHeads",
        "spec.engine.parallelism.tensor",
        "qwen2-vl",
        engine(parallelism={"tensor": 7}),
        engine(parallelism={"tensor": 4}),
    ),
    case(
        "TensorParallel",
        "spec.engine.parallelism.tensor",
        "whisper",
        engine(parallelism={"tensor": 2}),
        {},
    ),
    case(
        "PipelineParallel",
        "spec.engine.parallelism.pipeline",
        "mllama",
        engine(parallelism={"pipeline": 2}),
        engine(parallelism={"tensor": 2}),
    ),
    case(
        "PipelineParallelLayers",
        "spec.engine.parallelism.pipeline",
        "llava",
        engine(parallelism={"pipeline": 3}),
        engine(parallelism={"pipeline": 2}),
    ),
    case(
        "GpuCount",
        "spec.runtime.gpu.count",
        "llava",
        {"runtime": {"gpu": {"count": 2}}},
        {"runtime": {"gpu": {"count": 1}}},
    ),
    case(
        "TooManyImages",
        "spec.engine.maxImagesPerRequest",
        "qwen2-vl",
        engine(maxImagesPerRequest=2),
        engine(maxImagesPerRequest=1),
    ),
    case(
        "NumTokensBelowInputLen",
        "spec.engine.maxNumTokens",
        "llava",
        engine(maxNumTokens=1024),
        engine(maxNumTokens=2048),
    ),
    case(
        "NumTokensBelowBatch",
        "spec.engine.maxNumTokens",
        "bart",
        engine(maxNumTokens=7),
        engine(maxNumTokens=8),
    ),
    case(
        "NoEncoder", "spec.engine.maxEncoderInputLen", "llava", engine(maxEncoderInputLen=100), {}
    ),
    case(
        "NoCrossAttention",
        "spec.engine.kvCache.crossFraction",
        "llava",
        engine(kvCache={"crossFraction": "0.5"}),
        {},
    ),
    case(
        "PluginUnknown",
        "spec.engine.plugins.fast",
        "llava",
        engine(plugins={"fast": "on"}),
        engine(plugins={"use_fused_mlp": "enable"}),
    ),
    case(
        "PluginOfFamily",
        "spec.engine.plugins.context_fmha",
        "t5",
        engine(plugins={"context_fmha": "enable"}),
        engine(plugins={"context_fmha": "disable"}),
    ),
    case(
        "PluginOfFamily",
        "spec.engine.extraBuildArgs",
        "t5",
        engine(extraBuildArgs=["--context_fmha", "enable"]),
        engine(extraBuildArgs=["--context_fmha=disable"]),
    ),
    case(
        "PluginOfFamily",
        "spec.engine.plugins.context_fmha",
        "bart",
        engine(dtype="float32", plugins={"context_fmha": "enable"}),
        engine(dtype="float16", plugins={"context_fmha": "enable"}),
    ),
    case(
        "PluginDtype",
        "spec.engine.plugins.gpt_attention_plugin",
        "llava",
        engine(plugins={"gpt_attention_plugin": "bfloat16"}),
        engine(plugins={"gpt_attention_plugin": "float16"}),
    ),
    case(
        "PluginDtype",
        "spec.engine.extraBuildArgs",
        "llava",
        engine(extraBuildArgs=["--gpt_attention_plugin=bfloat16"]),
        engine(extraBuildArgs=["--gpt_attention_plugin=auto"]),
    ),
    case(
        "FlagUnknown",
        "spec.engine.extraBuildArgs",
        "llava",
        {"version": "1.0.0", **engine(extraBuildArgs=["--auto_parallel", "2"])},
        {"version": "0.18.2", **engine(extraBuildArgs=["--auto_parallel", "2"])},
    ),
    case(
        "FlagIsPlanned",
        "spec.engine.extraBuildArgs",
        "llava",
        engine(extraBuildArgs=["--max_batch_size=4"]),
        engine(extraBuildArgs=["--dry_run"]),
    ),
    case(
        "LookaheadPromptTable",
        "spec.engine.extraBuildArgs",
        "llava",
        engine(extraBuildArgs=["--speculative_decoding_mode", "lookahead_decoding"]),
        engine(extraBuildArgs=["--max_draft_len", "3"]),
    ),
    case(
        "PickleRefused",
        "spec.model.allowPickle",
        "nmt",
        {"model": {"allowPickle": False}},
        {"model": {"allowPickle": True}},
    ),
    case(
        "SeqLenAbovePositions",
        "spec.engine.maxSeqLen",
        "llava",
        engine(maxSeqLen=4097),
        engine(maxSeqLen=4096),
    ),
    case(
        "InputLenNotBelowSeqLen",
        "spec.engine.maxInputLen",
        "llava",
        engine(maxInputLen=2560, maxSeqLen=2560),
        engine(maxInputLen=2559, maxSeqLen=2560),
    ),
    case(
        "InputLenTooShort",
        "spec.engine.maxInputLen",
        "llava",
        engine(maxInputLen=592),
        engine(maxInputLen=593),
    ),
    case(
        "EncoderInputLenAbovePositions",
        "spec.engine.maxEncoderInputLen",
        "bart",
        engine(maxEncoderInputLen=1025),
        engine(maxEncoderInputLen=1024),
    ),
    case(
        "DecoderInputLen",
        "spec.engine.maxInputLen",
        "bart",
        engine(maxInputLen=3),
        engine(maxInputLen=2),
    ),
    case("VideoNotSupported", "spec.engine.maxVideoFrames", "llava", engine(maxVideoFrames=8), {}),
    case(
        "UnboundedPool",
        "spec.runtime.maxQueueSize",
        "llava",
        {"gateway": {"enabled": False}, "runtime": {"maxQueueSize": 0}},
        {"gateway": {"enabled": False}, "runtime": {"maxQueueSize": 1}},
    ),
    case(
        "PoolTooSmall",
        "spec.runtime.memoryPools.cuda",
        "llava",
        {"runtime": {"memoryPools": {"cuda": "135Mi"}}},
        {"runtime": {"memoryPools": {"cuda": "136Mi"}}},
    ),
    case(
        "PoolAboveGpuMemory",
        "spec.runtime.memoryPools.cuda",
        "mllama",
        {"runtime": {"maxConcurrency": 4000, "maxQueueSize": 4000}},
        {"runtime": {"maxConcurrency": 400, "maxQueueSize": 4000}},
    ),
    case(
        "ReuseOfCrossAttention",
        "spec.engine.kvCache.reuse",
        "mllama",
        engine(kvCache={"reuse": True}),
        engine(kvCache={"reuse": False}),
    ),
    case(
        "ReuseOfRotations",
        "spec.engine.kvCache.reuse",
        "qwen2-vl",
        engine(kvCache={"reuse": True}),
        engine(kvCache={"reuse": False}),
    ),
    case(
        "ReuseWithBeams",
        "spec.engine.kvCache.reuse",
        "llava",
        engine(kvCache={"reuse": True}, maxBeamWidth=2),
        engine(kvCache={"reuse": True}),
    ),
    case(
        "ReuseSharedByKeys",
        "spec.engine.kvCache.reuse",
        "llava",
        {**engine(kvCache={"reuse": True}), "gateway": {"authSecretRef": {"name": "keys"}}},
        {"gateway": {"authSecretRef": {"name": "keys"}}},
    ),
    case(
        "ReuseOfImages",
        "spec.engine.kvCache.reuse",
        "qwen2-vl",
        served(kvCache={"reuse": True}),
        served(kvCache={"reuse": True}, maxImagesPerRequest=0),
    ),
    case(
        "KvFractionTooLarge",
        "spec.engine.kvCache.freeGpuMemoryFraction",
        "llava",
        engine(kvCache={"freeGpuMemoryFraction": "0.99"}),
        engine(kvCache={"freeGpuMemoryFraction": "0.9"}),
    ),
]


@pytest.mark.parametrize(("code", "path", "family", "bad", "good"), CASES)
def test_both_sides(
    code: str, path: str, family: str, bad: dict[str, Any], good: dict[str, Any]
) -> None:
    """The bad spec is refused with code, field and a way out; its good neighbour is planned."""
    refused = planned(family, **bad)

    assert [error.code for error in refused.errors] == [code]
    assert refused.errors[0].path == path
    assert refused.engines == []
    assert planned(family, **good).errors == []


@pytest.mark.parametrize(
    ("family", "engine", "backends"),
    [
        ("llava", {}, "use TensorRT or Reference"),
        ("internvl", {}, "use Reference"),
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
    """A spec with three mistakes gets three messages."""
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
    """The way out lists every number of GPUs up to 8 that works."""
    (error,) = planned("flan-t5", **engine(parallelism={"tensor": 4})).errors

    assert error.message.endswith("6 heads cannot be split over 4 GPUs: use 1 or 2 or 3 or 6")


def test_class_token_is_not_kept() -> None:
    """A LLaVA that keeps the class token has one feature more than upstream's engine gives."""
    facts = facts_of("llava")
    assert facts.vision is not None
    full = facts.vision.model_copy(update={"feature_select": "full"})

    plan = planned("llava", facts=facts.model_copy(update={"vision": full}))

    assert [error.code for error in plan.errors] == ["FeatureSelect"]


def test_fairseq_is_read_in_its_own_layout() -> None:
    """The converter takes FairSeq's checkpoint, not the one that transformers made of it."""
    facts = facts_of("nmt").model_copy(update={"architecture": "FSMTForConditionalGeneration"})

    plan = planned("nmt", facts=facts)

    assert "FairSeqLayout" in [error.code for error in plan.errors]
    assert "FairSeqLayout" not in [error.code for error in planned("nmt").errors]


def test_notes_on_engines_are_of_engines() -> None:
    """What upstream's vision builder needs is not said of a backend that does not run it."""
    needs = [
        any("demo image" in one.message for one in planned("qwen2-vl", **arguments).warnings)
        for arguments in ({}, served())
    ]
    assert needs == [True, False]
