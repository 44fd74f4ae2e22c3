"""The build's commands use the scripts and flags of the image's TensorRT-LLM."""

import pytest

from mm_api.families import FAMILIES
from mm_api.trtllm_layout import engine_folder, engine_limits
from mm_operator.errors import SpecError
from mm_operator.plan.engine.tables import flags_of, trtllm_version, version_of
from support.cases import cases
from support.model_configs import WITH_ENGINES, planned, versions_of


def program_of(argv: list[str], family: str) -> str:
    if argv[0] == "trtllm-build":
        return argv[0]
    if "quantize" in argv[1]:
        return "quantize"
    return "vision" if "multimodal" in argv[1] else FAMILIES[family].trtllm.converter


@pytest.mark.parametrize(
    ("family", "version"), [(family, one) for family in WITH_ENGINES for one in versions_of(family)]
)
def test_every_flag_exists(family: str, version: str) -> None:
    plans = [planned(family, version=version)]
    if FAMILIES[family].trtllm.tensor_parallel:
        plans.append(planned(family, {"parallelism": {"tensor": 2}}, version=version))
    plans += [
        planned(family, {"quantization": name}, version=version)
        for name in FAMILIES[family].trtllm.quantizations
    ]
    for plan in plans:
        assert plan.errors == []
        for argv in (plan.convert.argv, *(engine.argv for engine in plan.engines)):
            known = flags_of(program_of(argv, family), version_of(version))
            assert {flag[2:] for flag in argv if flag.startswith("--")} - known == set()


@cases(
    "version convert vision",
    {
        "up-to-0.18": (
            "0.18.2",
            "examples/llama/convert_checkpoint.py",
            "examples/multimodal/build_visual_engine.py",
        ),
        "0.19": (
            "0.19.0",
            "examples/llama/convert_checkpoint.py",
            "examples/multimodal/build_multimodal_engine.py",
        ),
        "since-0.20": (
            "0.20.0",
            "examples/models/core/llama/convert_checkpoint.py",
            "examples/models/core/multimodal/build_multimodal_engine.py",
        ),
    },
)
def test_scripts_move(version: str, convert: str, vision: str) -> None:
    plan = planned("llava", version=version)

    assert plan.convert.argv[1] == convert
    assert plan.engines[-1].argv[1] == vision


def test_opt_moved_to_contrib() -> None:
    plan = planned("blip2-opt", version="1.0.0")
    assert plan.convert.argv[1] == "examples/models/contrib/opt/convert_checkpoint.py"


def flag(argv: list[str], name: str) -> str | None:
    return argv[argv.index(name) + 1] if name in argv else None


@pytest.mark.parametrize("family", ["t5", "flan-t5", "mt5", "byt5"])
def test_t5_has_no_fused_attention(family: str) -> None:
    """Both engines of the T5 families turn context FMHA off and compute in bfloat16."""
    for engine in planned(family).engines:
        assert flag(engine.argv, "--context_fmha") == "disable"
        assert flag(engine.argv, "--gemm_plugin") == "bfloat16"


def test_flags_of_the_converter_are_the_converters() -> None:
    plan = planned("t5", {"extraBuildArgs": ["--use_implicit_relative_attention"]})
    commands = (plan.convert, *plan.engines)
    assert ["--use_implicit_relative_attention" in one.argv for one in commands] == [
        *(True, False, False)
    ]


def test_engines_of_an_encoder_decoder() -> None:
    """The decoder starts from two ids and reads what the encoder may be given."""
    encoder, decoder = planned("bart", {"dtype": "float32"}).engines

    assert flag(encoder.argv, "--kv_cache_type") == "disabled"
    assert flag(decoder.argv, "--kv_cache_type") == "paged"
    assert flag(decoder.argv, "--max_input_len") == "2"
    assert flag(decoder.argv, "--max_seq_len") == "202"
    assert flag(decoder.argv, "--max_encoder_input_len") == flag(encoder.argv, "--max_input_len")
    assert flag(encoder.argv, "--context_fmha") == flag(decoder.argv, "--context_fmha") is None


def test_engines_of_whisper() -> None:
    """Upstream's documented engines: 3000 frames, 14 ids of prompt, 114 in all."""
    plan = planned("whisper")
    encoder, decoder = plan.engines

    assert flag(plan.convert.argv, "--model_name") == "large-v3"
    assert flag(encoder.argv, "--max_input_len") == "3000"
    assert flag(decoder.argv, "--max_input_len") == "14"
    assert flag(decoder.argv, "--max_seq_len") == "114"
    assert flag(decoder.argv, "--max_encoder_input_len") == "3000"


def test_onevisions_guide_is_a_spec() -> None:
    """Its two commands bound images that would become 8,765 rows."""
    limits = {"maxBatchSize": 1, "maxInputLen": 7500, "maxSeqLen": 7600, "maxMultimodalLen": 7300}
    language, tower = planned("llava-onevision", limits, vision={"maxBatchSize": 16}).engines
    names = ("--max_batch_size", "--max_input_len", "--max_seq_len", "--max_multimodal_len")
    expected = dict(zip(names, map(str, limits.values()), strict=True))

    assert {name: flag(language.argv, name) for name in expected} == expected
    assert flag(tower.argv, "--max_batch_size") == "16"


def test_mllama_has_encoder_tokens_and_no_table() -> None:
    """Cross attention is bounded by max_encoder_input_len."""
    argv = planned("mllama").engines[0].argv

    assert flag(argv, "--max_encoder_input_len") == "6404"
    assert "--max_multimodal_len" not in argv


@cases(
    "image expected",
    {
        "25.06": ("nvcr.io/nvidia/tritonserver:25.06-trtllm-python-py3", "0.20.0"),
        "port": ("registry:5000/triton:26.04-trtllm-python-py3", "1.2.1"),
        "newest": (None, "1.2.1"),
    },
)
def test_image_reports_the_version(image: str | None, expected: str) -> None:
    assert trtllm_version(image, None)[0] == expected


@pytest.mark.parametrize("image", ["mine:latest", "registry:5000/triton", "a/b:99.99-x"])
def test_unknown_tags_need_a_version(image: str) -> None:
    with pytest.raises(SpecError) as refused:
        trtllm_version(image, None)
    assert refused.value.reason == "ImageUnknown"
    assert trtllm_version(image, "0.20.0")[0] == "0.20.0"


def test_the_image_that_serves_must_be_known_too() -> None:
    """A build image that reports its version says nothing of the one that loads the engine."""
    built = "nvcr.io/nvidia/tritonserver:25.06-trtllm-python-py3"
    with pytest.raises(SpecError) as refused:
        trtllm_version(built, None, "registry/serving:mine")
    assert refused.value.reason == "ImageUnknown"
    assert "registry/serving:mine" in str(refused.value)
    assert trtllm_version(built, None, built)[0] == "0.20.0"


@cases(
    "older newer",
    {
        "numbers-not-text": ("0.9.0", "0.16.0"),
        "candidate-before-release": ("1.3.0rc20", "1.3.0"),
        "four-parts": ("0.17.0", "1.0.3.2510"),
    },
)
def test_versions_are_ordered(older: str, newer: str) -> None:
    assert version_of(older) < version_of(newer)


@cases(
    "version folder",
    {
        "0.16": ("0.16.0", "vision_encoder"),
        "0.18": ("0.18.2", "vision_encoder"),
        "0.19": ("0.19.0", "multimodal_encoder"),
        "candidate": ("1.2.0rc3", "multimodal_encoder"),
    },
)
def test_vision_engines_have_the_folder_of_their_version(version: str, folder: str) -> None:
    plan = planned("llava", version=version)
    argv = plan.engines[-1].argv

    assert f"build/engines/{folder}" == engine_folder("vision", version)
    assert engine_folder("vision", version) == argv[argv.index("--output_dir") + 1]


def test_halves_of_an_encoder_decoder_have_limits_of_their_own() -> None:
    """The encoder reads what cross attention sees, a full batch in one step, rounded up to 8."""
    plan = planned("bart", {"maxEncoderInputLen": 301, "maxBatchSize": 3})
    limits = plan.build_plan.engine.limits
    encoder, decoder = engine_limits("encoder", limits), engine_limits("decoder", limits)

    assert (encoder["max_input_len"], encoder["max_seq_len"]) == (301, 301)
    assert encoder["max_num_tokens"] == 904
    assert "max_encoder_input_len" not in encoder
    assert (decoder["max_input_len"], decoder["max_encoder_input_len"]) == (2, 301)
