"""Argument vectors of the build, for the tools of one TensorRT-LLM version.

Paths are relative to TensorRT-LLM's root, where a folder `checkpoint` (VILA: `checkpoint-vila`,
because the converter knows it by its name) holds the model; everything is written below `build`.
"""

from mm_api.documents.build_plan import EngineLimits
from mm_api.documents.model_facts import LoraFacts, ModelFacts
from mm_api.documents.trtllm_build import Command, EngineCommand, EngineName
from mm_api.families.family import Family, Kind
from mm_api.trtllm_layout import CONVERTED, engine_folder, engine_limits
from mm_operator.errors import SpecError
from mm_operator.plan.engine.build_checks import CONVERTER_FLAGS
from mm_operator.plan.engine.limits import Limits
from mm_operator.plan.engine.request import PlanRequest
from mm_operator.plan.engine.tables import era, table, version_of

TIMING_CACHE = "build/timing.cache"
"""What TensorRT measured; a first build finds none, warns and continues (#build-flags)."""
CALIBRATION_SAMPLES = "512"
_QUANTIZE = {"FP8": "fp8", "INT4AWQ": "int4_awq", "SmoothQuant": "int8_sq"}
_WEIGHT_ONLY = {"INT8WeightOnly": "int8", "INT4WeightOnly": "int4"}


def scripts(version: str) -> dict[str, str]:
    return era(table("tools")["scripts"], version_of(version))


def convert(
    request: PlanRequest, facts: ModelFacts, family: Family, dtype: str, version: str
) -> Command:
    """Return the converter's command; SpecError: a Whisper that it has no name for."""
    name, quantized = family.trtllm.converter, _QUANTIZE.get(request.quantization or "")
    if quantized:
        argv = ["python3", table("tools")["quantize"]]
    else:
        where = scripts(version)
        path = where["convert"]
        if name in table("tools")["contrib"]:
            path = where.get("contrib", path)
        argv = ["python3", path.format(name=name)]
    argv += ["" if quantized else flag for flag in family.trtllm.convert_flags]
    argv = [*filter(None, argv), "--model_dir", family.trtllm.checkpoint_folder]
    argv += ["--output_dir", CONVERTED]
    if family.trtllm.model_name is not None:
        argv += ["--model_name", _known(family.trtllm.model_name(facts))]
    argv += ["--dtype", dtype]
    if family.trtllm.tensor_parallel and request.tensor_parallel > 1:
        argv += ["--tp_size", str(request.tensor_parallel)]
    if request.pipeline_parallel > 1:
        argv += ["--pp_size", str(request.pipeline_parallel)]
    if quantized:
        argv += ["--qformat", quantized, "--calib_size", CALIBRATION_SAMPLES]
    if request.quantization == "FP8":
        argv += ["--kv_cache_dtype", "fp8"]
    if request.quantization in _WEIGHT_ONLY:
        argv += ["--use_weight_only", "--weight_only_precision", _WEIGHT_ONLY[request.quantization]]
    return Command(argv=argv + [one for one in request.extra_build_args if _is_converters(one)])


def engines(
    request: PlanRequest,
    family: Family,
    limits: Limits,
    dtype: str,
    version: str,
    *,
    lora: LoraFacts | None = None,
) -> list[EngineCommand]:
    """Return the commands that build each engine, in order."""
    built = [
        _with_adapters(command, request, lora, dtype)
        for command in (
            _encoder_decoder(request, family, limits.engine, dtype, version)
            if family.kind is Kind.ENCODER_DECODER
            else [_language_model(request, family, limits.engine, dtype, version)]
        )
    ]
    if limits.vision_batch:
        built.append(_vision(family, limits.vision_batch, version))
    return built


def _with_adapters(
    command: EngineCommand, request: PlanRequest, lora: LoraFacts | None, dtype: str
) -> EngineCommand:
    """Return a command whose engine can apply the adapters that change it.

    An encoder-decoder's engines then keep their padding, as upstream's guide builds BART with LoRA
    (#encoders).
    """
    modules = lora.modules.get(command.name) if lora and request.lora else None
    if not lora or not modules:
        return command
    argv = list(command.argv)
    if command.name != "llm" and "--remove_input_padding" in argv:
        argv[argv.index("--remove_input_padding") + 1] = "disable"
    argv += ["--lora_plugin", dtype, "--max_lora_rank", str(lora.rank)]
    argv += ["--lora_dir", *(f"adapters/{name}" for name in request.lora)]
    argv += ["--lora_target_modules", *modules]
    return command.model_copy(update={"argv": argv})


def _language_model(
    request: PlanRequest, family: Family, limits: EngineLimits, dtype: str, version: str
) -> EngineCommand:
    argv = _build("llm", CONVERTED, limits, version)
    flags = family.trtllm.build_flags
    if request.reuse:
        # What was found is read from the cache's pages while the rest is computed (#build-flags).
        flags = (*flags, ("use_paged_context_fmha", "enable"))
    argv += _plugins(request, flags, dtype)
    return EngineCommand(name="llm", argv=argv + _rest(request))


def _encoder_decoder(
    request: PlanRequest, family: Family, limits: EngineLimits, dtype: str, version: str
) -> list[EngineCommand]:
    encoder = _build("encoder", f"{CONVERTED}/encoder", limits, version)
    encoder += ["--kv_cache_type", "disabled"]
    encoder += _plugins(request, family.trtllm.encoder_flags, dtype)
    decoder = _build("decoder", f"{CONVERTED}/decoder", limits, version)
    decoder += ["--kv_cache_type", "paged"]
    decoder += _plugins(request, family.trtllm.build_flags, dtype)
    return [
        EngineCommand(name="encoder", argv=encoder + _rest(request)),
        EngineCommand(name="decoder", argv=decoder + _rest(request)),
    ]


def _build(name: EngineName, converted: str, limits: EngineLimits, version: str) -> list[str]:
    argv = ["trtllm-build", "--checkpoint_dir", converted]
    argv += ["--output_dir", engine_folder(name, version)]
    values = engine_limits(name, limits).items()
    return argv + [part for flag, value in values for part in (f"--{flag}", str(value))]


def _plugins(request: PlanRequest, flags: tuple[tuple[str, str], ...], dtype: str) -> list[str]:
    chosen = {name: value.format(dtype=dtype) for name, value in flags}
    if request.quantization == "FP8":
        chosen["use_fp8_context_fmha"] = "enable"
    chosen |= dict(request.plugins)
    return [part for name, value in chosen.items() for part in (f"--{name}", value)]


def _rest(request: PlanRequest) -> list[str]:
    ranks = request.tensor_parallel * request.pipeline_parallel
    workers = ["--workers", str(ranks)] if ranks > 1 else []
    measured = ["--input_timing_cache", TIMING_CACHE, "--output_timing_cache", TIMING_CACHE]
    built = [one for one in request.extra_build_args if not _is_converters(one)]
    return [*workers, *measured, *built]


def _is_converters(argument: str) -> bool:
    return argument.removeprefix("--") in CONVERTER_FLAGS


def _vision(family: Family, batch: int, version: str) -> EngineCommand:
    argv = ["python3", scripts(version)["vision"], "--model_type", family.trtllm.vision_type or ""]
    argv += ["--model_path", family.trtllm.checkpoint_folder, *family.trtllm.vision_path_flags]
    argv += ["--output_dir", engine_folder("vision", version)]
    argv += ["--max_batch_size", str(batch)]
    return EngineCommand(name="vision", argv=[*argv, *family.trtllm.vision_flags])


def _known(name: str | None) -> str:
    if name is None:
        raise SpecError(
            "WhisperUnknown",
            "the converter has no name for a Whisper of these dimensions: use a checkpoint of "
            "OpenAI's sizes",
            "spec.model.source",
        )
    return name
