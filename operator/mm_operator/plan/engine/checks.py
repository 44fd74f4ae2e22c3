"""What can be known to fail without a GPU: each check has a code, a field and a way out.

An ordered tuple of functions of one signature; every hit is reported, not only the first. The rows
of upstream's known failures that they answer to: #known-failures.
"""

from collections.abc import Callable, Iterator

from mm_api.documents.model_plan import PlanError
from mm_api.families import FAMILIES
from mm_api.families.family import Kind
from mm_operator.plan.engine.dtypes import FP8_SINCE, capability
from mm_operator.plan.engine.plugin_checks import plugin_problems
from mm_operator.plan.engine.serve_checks import serve_problems
from mm_operator.plan.engine.situation import Situation, plan_error
from mm_operator.plan.engine.tables import flags_of, table, version_of

LOOKAHEAD = "lookahead_decoding"
PLANNED_FLAGS = frozenset(
    [
        "checkpoint_dir",
        "output_dir",
        "max_batch_size",
        "max_beam_width",
        "max_input_len",
        "max_seq_len",
        "max_decoder_seq_len",
        "max_num_tokens",
        "max_encoder_input_len",
        "max_multimodal_len",
        "max_prompt_embedding_table_size",
        "kv_cache_type",
        "workers",
        "input_timing_cache",
        "output_timing_cache",
    ]
)
"""Flags that are planned: memory and pools were computed for their values."""


Check = Callable[[Situation], Iterator[PlanError]]


def problems(situation: Situation) -> list[PlanError]:
    """Return everything that is known to fail, in the order of the checks."""
    return [problem for check in _CHECKS for problem in check(situation)]


def _family(now: Situation) -> Iterator[PlanError]:
    if now.family_asked not in {None, now.family.name}:
        yield plan_error(
            "model.family",
            "FamilyMismatch",
            f"the checkpoint is of the family {now.family.name}: remove the field or set it to "
            "that",
        )
    vision = now.facts.vision
    drops = not now.family.recipe.keeps_class_token
    if drops and vision and vision.feature_select == "full":
        yield plan_error(
            "model.source",
            "FeatureSelect",
            "vision_feature_select_strategy is 'full', and upstream's vision wrapper always drops "
            "the class token: use a checkpoint with 'default', or backend Reference",
        )
    if now.backend == "TensorRT":
        for one in now.family.recipe.refusals:
            if one.applies(now.facts):
                yield plan_error("model.source", one.code, one.message)


def _backend(now: Situation) -> Iterator[PlanError]:
    version, bounds = version_of(now.version), table("images")["engines"]
    if now.backend == "PyTorch":
        yield from serve_problems(now)
        return
    if version > version_of(bounds["last"]):
        yield plan_error(
            "engine.backend",
            "BackendGone",
            f"TensorRT-LLM {now.version} has no engines any more ({bounds['last']} was the last): "
            "use backend PyTorch, or an image up to 26.07",
        )
    if version < version_of(bounds["first"]):
        yield plan_error(
            "build.image",
            "VersionTooOld",
            f"the flags of TensorRT-LLM {now.version} are not known (known from {bounds['first']} "
            "on): use an image of 24.12 or newer",
        )


def _quantization(now: Situation) -> Iterator[PlanError]:
    asked = now.ask.quantization
    if asked is None:
        return
    if asked not in now.family.quantizations:
        can = ", ".join(now.family.quantizations) or "none"
        yield plan_error(
            "engine.quantization",
            "QuantizationNotSupported",
            f"{asked} is not supported for {now.family.name} (supported: {can}): use one of them "
            "or remove the field",
        )
    if asked == "FP8" and capability(now.gpu) < FP8_SINCE:
        yield plan_error(
            "engine.quantization",
            "Fp8NeedsGpu",
            f"FP8 needs compute capability 8.9, and {now.gpu.product} has "
            f"{now.gpu.compute_capability}: use INT8WeightOnly, or another GPU",
        )


def _parallelism(now: Situation) -> Iterator[PlanError]:
    tensor, pipeline = now.ask.tensor_parallel, now.ask.pipeline_parallel
    text, path = now.facts.text, "engine.parallelism.tensor"
    if text.attention_heads % tensor:
        fits = [str(n) for n in (1, 2, 3, 4, 6, 8) if text.attention_heads % n == 0]
        yield plan_error(
            path,
            "TensorParallelHeads",
            f"{text.attention_heads} heads cannot be split over {tensor} GPUs: use "
            f"{' or '.join(fits)}",
        )
    keys = text.key_value_heads
    if text.attention_heads % tensor == 0 and keys % tensor and tensor % keys:
        yield plan_error(
            path,
            "TensorParallelKeyValueHeads",
            f"{keys} key-value heads can be neither split over nor repeated on {tensor} GPUs: use "
            "a divisor or a multiple",
        )
    if tensor > 1 and not now.family.tensor_parallel:
        yield plan_error(
            path, "TensorParallel", f"{now.family.name}'s converter cannot split it: use 1"
        )
    if pipeline > 1 and not now.family.pipeline_parallel:
        yield plan_error(
            "engine.parallelism.pipeline",
            "PipelineParallel",
            f"{now.family.name} cannot be split by layers: the encoder's output would reach one "
            "stage only, or upstream's converter refuses it: use tensor parallelism",
        )
    elif text.layers % pipeline:
        fits = [str(n) for n in range(2, 9) if text.layers % n == 0]
        yield plan_error(
            "engine.parallelism.pipeline",
            "PipelineParallelLayers",
            f"{text.layers} layers cannot be split evenly over {pipeline} stages: use "
            f"{' or '.join(fits)}",
        )
    if now.gpu_count and now.gpu_count != tensor * pipeline:
        yield plan_error(
            "runtime.gpu.count",
            "GpuCount",
            f"{now.gpu_count} GPUs, and the engine has {tensor * pipeline} ranks: set it to "
            f"{tensor * pipeline}",
        )


def _images(now: Situation) -> Iterator[PlanError]:
    asked, most = now.ask.max_images, now.family.max_images
    if now.facts.vision is not None and asked > most:
        yield plan_error(
            "engine.maxImagesPerRequest",
            "TooManyImages",
            f"{asked} images are not possible for {now.family.name}: "
            f"{now.family.max_images_reason}; use at most {most}",
        )
    if now.ask.max_video_frames is not None and not now.family.video_upstream:
        yield plan_error(
            "engine.maxVideoFrames",
            "VideoNotSupported",
            f"upstream's models take no video for {now.family.name}: remove the field, or use "
            "backend Reference",
        )


def _limits(now: Situation) -> Iterator[PlanError]:
    ask = now.ask
    if ask.max_num_tokens is not None and ask.max_num_tokens < ask.max_batch_size:
        yield plan_error(
            "engine.maxNumTokens",
            "NumTokensBelowBatch",
            f"{ask.max_num_tokens} is below maxBatchSize {ask.max_batch_size}: every request of a "
            "step needs a token; raise it",
        )
    if ask.max_encoder_input_len is not None and now.family.kind is not Kind.ENCODER_DECODER:
        yield plan_error(
            "engine.maxEncoderInputLen",
            "NoEncoder",
            f"{now.family.name} has no encoder of text or sound (mllama's limit follows from its "
            "tiles): remove the field",
        )
    crossing = now.family.kind is not Kind.PROMPT_TABLE
    if ask.cross_fraction is not None and not crossing:
        yield plan_error(
            "engine.kvCache.crossFraction",
            "NoCrossAttention",
            f"{now.family.name} has no cross attention: remove the field",
        )


def _arguments(now: Situation) -> Iterator[PlanError]:
    if now.backend == "PyTorch":
        return
    known = flags_of("trtllm-build", version_of(now.version))
    for name, _ in now.ask.plugins:
        if name not in known or name in PLANNED_FLAGS:
            yield plan_error(
                f"engine.plugins.{name}",
                "PluginUnknown",
                f"trtllm-build of TensorRT-LLM {now.version} has no plugin {name}: remove it",
            )
    given = [argument for argument in now.ask.extra_build_args if argument.startswith("--")]
    for argument in given:
        name = argument[2:].partition("=")[0]
        if name in PLANNED_FLAGS:
            yield plan_error(
                "engine.extraBuildArgs",
                "FlagIsPlanned",
                f"--{name} is planned, and memory was computed for its value: use the field of "
                "spec.engine",
            )
        elif name not in known:
            yield plan_error(
                "engine.extraBuildArgs",
                "FlagUnknown",
                f"trtllm-build of TensorRT-LLM {now.version} has no flag --{name}: remove it",
            )
    if any(LOOKAHEAD in argument for argument in now.ask.extra_build_args) and (
        now.family.kind is Kind.PROMPT_TABLE
    ):
        yield plan_error(
            "engine.extraBuildArgs",
            "LookaheadPromptTable",
            "lookahead decoding with a prompt table gives wrong answers (upstream issue 6009): "
            "remove it",
        )


def _lora(now: Situation) -> Iterator[PlanError]:
    if not now.ask.lora:
        return
    if not now.family.adapters:
        adapted = sorted(family.name for family in FAMILIES.values() if family.adapters)
        yield plan_error(
            "engine.lora",
            "LoraFamily",
            f"adapters of {now.family.name} are not converted (those of "
            f"{', '.join(adapted)} are): remove the field",
        )
    known = tuple(one.name for one in now.facts.lora.adapters) if now.facts.lora else ()
    if known != now.ask.lora:
        yield plan_error(
            "engine.lora",
            "LoraNotInspected",
            "sizes and modules of the adapters are not known: give --facts what `mm-runtime "
            "inspect --source ... --adapter NAME=SOURCE` prints (the operator does it by itself)",
        )


def _source(now: Situation) -> Iterator[PlanError]:
    if now.facts.weight_format == "pickle" and not now.allow_pickle:
        yield plan_error(
            "model.allowPickle",
            "PickleRefused",
            "the weights are pickles, which can run code when they are loaded: set it to true if "
            "you trust where they come from",
        )


_CHECKS: tuple[Check, ...] = (
    _family,
    _backend,
    _quantization,
    _parallelism,
    _images,
    _limits,
    _arguments,
    plugin_problems,
    _lora,
    _source,
)
