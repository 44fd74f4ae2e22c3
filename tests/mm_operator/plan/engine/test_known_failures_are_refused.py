"""What fails on a GPU for a known reason is refused before one is requested, and only that."""

from functools import partial
from typing import Any

import pytest

from support.model_configs import facts_of, planned


def case(family: str, code: str, field: str, bad: dict[str, Any], good: dict[str, Any]) -> object:
    """Return one row: a code, the field of the spec that it blames, and both sides."""
    return pytest.param(code, f"spec.{field}", family, bad, good, id=code)


def engine(**fields: Any) -> dict[str, Any]:
    return {"engine": fields}


def served(**fields: Any) -> dict[str, Any]:
    return {"version": "1.1.0", **engine(backend="PyTorch", **fields)}


_bart = partial(case, "bart")
_flan_t5 = partial(case, "flan-t5")
_llava = partial(case, "llava")
_mllama = partial(case, "mllama")
_qwen2_vl = partial(case, "qwen2-vl")

CASES = [
    _llava(
        "FamilyMismatch",
        "model.family",
        {"model": {"family": "vila"}},
        {"model": {"family": "llava"}},
    ),
    _llava("BackendGone", "engine.backend", {"version": "1.3.0"}, {"version": "1.3.0rc20"}),
    _llava("VersionTooOld", "build.image", {"version": "0.15.0"}, {"version": "0.16.0"}),
    _qwen2_vl("FamilyNeedsNewer", "build.image", {"version": "0.18.2"}, {"version": "0.19.0"}),
    _qwen2_vl(
        "BackendTooOld",
        "engine.backend",
        {"version": "0.21.0", **engine(backend="PyTorch")},
        {"version": "1.0.0", **engine(backend="PyTorch")},
    ),
    _bart(
        "BackendFamily",
        "engine.backend",
        {"version": "1.0.0", **engine(backend="PyTorch")},
        {"version": "1.0.0"},
    ),
    case(
        "vila",
        "BackendFamily",
        "engine.backend",
        {"version": "1.0.0", **engine(backend="PyTorch")},
        {"version": "1.0.0"},
    ),
    _mllama(
        "BackendTextOnly", "engine.maxImagesPerRequest", served(), served(maxImagesPerRequest=0)
    ),
    _qwen2_vl(
        "QuantizationNotStaged",
        "engine.quantization",
        served(quantization="INT4AWQ"),
        served(quantization="FP8"),
    ),
    _qwen2_vl(
        "BeamsNotServed", "engine.maxBeamWidth", served(maxBeamWidth=2), served(maxBeamWidth=1)
    ),
    _qwen2_vl("DtypeNotServed", "engine.dtype", served(dtype="float16"), served(dtype="bfloat16")),
    _qwen2_vl(
        "NothingIsBuilt", "engine.plugins", served(plugins={"gemm_plugin": "auto"}), served()
    ),
    _qwen2_vl(
        "NothingIsBuilt", "engine.extraBuildArgs", served(extraBuildArgs=["--fast_build"]), served()
    ),
    _flan_t5("DtypeNotSupported", "engine.dtype", engine(dtype="float16"), engine(dtype="float32")),
    _mllama("DtypeNeedsGpu", "engine.dtype", {"gpu": "t4-16gb"}, {"gpu": "a100-40gb"}),
    _llava(
        "TableDtype",
        "engine.dtype",
        {"version": "0.19.0", **engine(dtype="bfloat16")},
        {"version": "0.20.0", **engine(dtype="bfloat16")},
    ),
    case(
        "blip2-opt",
        "QuantizationNotSupported",
        "engine.quantization",
        engine(quantization="INT4AWQ"),
        engine(quantization="INT4WeightOnly"),
    ),
    _llava(
        "GpuNotSupported",
        "runtime.gpu.product",
        {"version": "0.16.0", "gpu": "b200-180gb"},
        {"version": "0.17.0", "gpu": "b200-180gb"},
    ),
    _flan_t5(
        "GpuNotSupported",
        "runtime.gpu.product",
        {"gpu": "v100-32gb", **engine(dtype="float32")},
        {"gpu": "t4-16gb", **engine(dtype="float32")},
    ),
    _llava(
        "Fp8NeedsGpu",
        "engine.quantization",
        {"gpu": "a100-80gb", **engine(quantization="FP8")},
        {"gpu": "l40s-48gb", **engine(quantization="FP8")},
    ),
    _flan_t5(
        "TensorParallelHeads",
        "engine.parallelism.tensor",
        engine(parallelism={"tensor": 4}),
        engine(parallelism={"tensor": 3}),
    ),
    _qwen2_vl(
        "TensorParallelKeyValueHeads",
        "engine.parallelism.tensor",
        engine(parallelism={"tensor": 7}),
        engine(parallelism={"tensor": 4}),
    ),
    case(
        "whisper",
        "TensorParallel",
        "engine.parallelism.tensor",
        engine(parallelism={"tensor": 2}),
        {},
    ),
    _mllama(
        "PipelineParallel",
        "engine.parallelism.pipeline",
        engine(parallelism={"pipeline": 2}),
        engine(parallelism={"tensor": 2}),
    ),
    _llava(
        "PipelineParallelLayers",
        "engine.parallelism.pipeline",
        engine(parallelism={"pipeline": 3}),
        engine(parallelism={"pipeline": 2}),
    ),
    _llava(
        "GpuCount",
        "runtime.gpu.count",
        {"runtime": {"gpu": {"count": 2}}},
        {"runtime": {"gpu": {"count": 1}}},
    ),
    _qwen2_vl(
        "TooManyImages",
        "engine.maxImagesPerRequest",
        engine(maxImagesPerRequest=2),
        engine(maxImagesPerRequest=1),
    ),
    _llava(
        "NumTokensBelowInputLen",
        "engine.maxNumTokens",
        engine(maxNumTokens=1024),
        engine(maxNumTokens=2048),
    ),
    _bart(
        "NumTokensBelowBatch", "engine.maxNumTokens", engine(maxNumTokens=7), engine(maxNumTokens=8)
    ),
    _llava("NoEncoder", "engine.maxEncoderInputLen", engine(maxEncoderInputLen=100), {}),
    _llava(
        "NoCrossAttention",
        "engine.kvCache.crossFraction",
        engine(kvCache={"crossFraction": "0.5"}),
        {},
    ),
    _llava(
        "PluginUnknown",
        "engine.plugins.fast",
        engine(plugins={"fast": "on"}),
        engine(plugins={"use_fused_mlp": "enable"}),
    ),
    case(
        "t5",
        "PluginOfFamily",
        "engine.plugins.context_fmha",
        engine(plugins={"context_fmha": "enable"}),
        engine(plugins={"context_fmha": "disable"}),
    ),
    case(
        "t5",
        "PluginOfFamily",
        "engine.extraBuildArgs",
        engine(extraBuildArgs=["--context_fmha", "enable"]),
        engine(extraBuildArgs=["--context_fmha=disable"]),
    ),
    _bart(
        "PluginOfFamily",
        "engine.plugins.context_fmha",
        engine(dtype="float32", plugins={"context_fmha": "enable"}),
        engine(dtype="float16", plugins={"context_fmha": "enable"}),
    ),
    _llava(
        "PluginDtype",
        "engine.plugins.gpt_attention_plugin",
        engine(plugins={"gpt_attention_plugin": "bfloat16"}),
        engine(plugins={"gpt_attention_plugin": "float16"}),
    ),
    _llava(
        "PluginDtype",
        "engine.extraBuildArgs",
        engine(extraBuildArgs=["--gpt_attention_plugin=bfloat16"]),
        engine(extraBuildArgs=["--gpt_attention_plugin=auto"]),
    ),
    _llava(
        "FlagUnknown",
        "engine.extraBuildArgs",
        {"version": "1.0.0", **engine(extraBuildArgs=["--auto_parallel", "2"])},
        {"version": "0.18.2", **engine(extraBuildArgs=["--auto_parallel", "2"])},
    ),
    _llava(
        "FlagIsPlanned",
        "engine.extraBuildArgs",
        engine(extraBuildArgs=["--max_batch_size=4"]),
        engine(extraBuildArgs=["--dry_run"]),
    ),
    _llava(
        "LookaheadPromptTable",
        "engine.extraBuildArgs",
        engine(extraBuildArgs=["--speculative_decoding_mode", "lookahead_decoding"]),
        engine(extraBuildArgs=["--max_draft_len", "3"]),
    ),
    case(
        "nmt",
        "PickleRefused",
        "model.allowPickle",
        {"model": {"allowPickle": False}},
        {"model": {"allowPickle": True}},
    ),
    _llava(
        "SeqLenAbovePositions", "engine.maxSeqLen", engine(maxSeqLen=4097), engine(maxSeqLen=4096)
    ),
    _llava(
        "InputLenNotBelowSeqLen",
        "engine.maxInputLen",
        engine(maxInputLen=2560, maxSeqLen=2560),
        engine(maxInputLen=2559, maxSeqLen=2560),
    ),
    _llava(
        "InputLenTooShort", "engine.maxInputLen", engine(maxInputLen=592), engine(maxInputLen=593)
    ),
    _bart(
        "EncoderInputLenAbovePositions",
        "engine.maxEncoderInputLen",
        engine(maxEncoderInputLen=1025),
        engine(maxEncoderInputLen=1024),
    ),
    _bart("DecoderInputLen", "engine.maxInputLen", engine(maxInputLen=3), engine(maxInputLen=2)),
    _llava("VideoNotSupported", "engine.maxVideoFrames", engine(maxVideoFrames=8), {}),
    _llava(
        "UnboundedPool",
        "runtime.maxQueueSize",
        {"gateway": {"enabled": False}, "runtime": {"maxQueueSize": 0}},
        {"gateway": {"enabled": False}, "runtime": {"maxQueueSize": 1}},
    ),
    _llava(
        "PoolTooSmall",
        "runtime.memoryPools.cuda",
        {"runtime": {"memoryPools": {"cuda": "135Mi"}}},
        {"runtime": {"memoryPools": {"cuda": "136Mi"}}},
    ),
    _mllama(
        "PoolAboveGpuMemory",
        "runtime.memoryPools.cuda",
        {"runtime": {"maxConcurrency": 4000, "maxQueueSize": 4000}},
        {"runtime": {"maxConcurrency": 400, "maxQueueSize": 4000}},
    ),
    _mllama(
        "ReuseOfCrossAttention",
        "engine.kvCache.reuse",
        engine(kvCache={"reuse": True}),
        engine(kvCache={"reuse": False}),
    ),
    _qwen2_vl(
        "ReuseOfRotations",
        "engine.kvCache.reuse",
        engine(kvCache={"reuse": True}),
        engine(kvCache={"reuse": False}),
    ),
    _llava(
        "ReuseWithBeams",
        "engine.kvCache.reuse",
        engine(kvCache={"reuse": True}, maxBeamWidth=2),
        engine(kvCache={"reuse": True}),
    ),
    _llava(
        "ReuseSharedByKeys",
        "engine.kvCache.reuse",
        {**engine(kvCache={"reuse": True}), "gateway": {"authSecretRef": {"name": "keys"}}},
        {"gateway": {"authSecretRef": {"name": "keys"}}},
    ),
    _qwen2_vl(
        "ReuseOfImages",
        "engine.kvCache.reuse",
        served(kvCache={"reuse": True}),
        served(kvCache={"reuse": True}, maxImagesPerRequest=0),
    ),
    _llava(
        "KvFractionTooLarge",
        "engine.kvCache.freeGpuMemoryFraction",
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
