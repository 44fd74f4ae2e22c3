"""What can be known to fail without a GPU: each check has a code, a field and a way out.

Each backend has an ordered tuple of functions of one signature; every hit is reported, not only the
first. The rows of upstream's known failures that they answer to: #known-failures.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.trtllm_build import GpuModel
from mm_api.families import FAMILIES
from mm_api.families.family import Family, Kind
from mm_api.sentences import count
from mm_operator.errors import SpecError
from mm_operator.plan.engine.adapters import check_inspected
from mm_operator.plan.engine.dtypes import FP8_SINCE, capability
from mm_operator.plan.engine.request import PlanRequest


@dataclass(frozen=True, slots=True)
class Case:
    """A request for an engine of one checkpoint, on one GPU, by one version of TensorRT-LLM."""

    request: PlanRequest
    facts: ModelFacts
    family: Family
    gpu: GpuModel
    version: str
    model: str
    """Its name, by which servers know it."""


def plan_error(path: str, code: str, message: str) -> SpecError:
    """Return an error at a field below `spec`; an empty path is the resource itself."""
    return SpecError(code, message, f"spec.{path}" if path else "")


Check = Callable[[Case], Iterator[SpecError]]


def check_family(now: Case) -> Iterator[SpecError]:
    """Yield errors for another family than the spec names, and for a tower that is changed."""
    if now.request.family not in {None, now.family.name}:
        yield plan_error(
            "model.family",
            "FamilyMismatch",
            f"the checkpoint is of the family {now.family.name}: remove the field or set it to "
            "that",
        )
    vision = now.facts.vision
    drops = not now.family.trtllm.keeps_class_token
    if drops and vision and vision.feature_select == "full":
        yield plan_error(
            "model.source",
            "FeatureSelect",
            "vision_feature_select_strategy is 'full', and upstream's vision wrapper always drops "
            "the class token: use a checkpoint with 'default', or backend Reference",
        )


def check_quantization(now: Case) -> Iterator[SpecError]:
    """Yield errors for a quantization that the family or the GPU lacks."""
    requested = now.request.quantization
    if requested is None:
        return
    if requested not in now.family.trtllm.quantizations:
        can = ", ".join(now.family.trtllm.quantizations) or "none"
        yield plan_error(
            "engine.quantization",
            "QuantizationNotSupported",
            f"{requested} is not supported for {now.family.name} (supported: {can}): use one of "
            "them or remove the field",
        )
    if requested == "FP8" and capability(now.gpu) < FP8_SINCE:
        yield plan_error(
            "engine.quantization",
            "Fp8NeedsGpu",
            f"FP8 needs compute capability 8.9, and {now.gpu.product} has "
            f"{now.gpu.compute_capability}: use INT8WeightOnly, or another GPU",
        )


def check_parallelism(now: Case) -> Iterator[SpecError]:
    """Yield errors for ranks that the model cannot be split over."""
    tensor, pipeline = now.request.tensor_parallel, now.request.pipeline_parallel
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
    if tensor > 1 and not now.family.trtllm.tensor_parallel:
        yield plan_error(
            path, "TensorParallel", f"{now.family.name}'s converter cannot split it: use 1"
        )
    if pipeline > 1 and not now.family.trtllm.pipeline_parallel:
        yield plan_error(
            "engine.parallelism.pipeline",
            "PipelineParallel",
            f"{now.family.name} cannot be split by layers: upstream splits encoder-decoders in its "
            "Python runtime alone, which Triton does not run (TensorRT-LLM #1847), or its "
            "converter refuses it: use tensor parallelism",
        )
    elif text.layers % pipeline:
        fits = [str(n) for n in range(2, 9) if text.layers % n == 0]
        yield plan_error(
            "engine.parallelism.pipeline",
            "PipelineParallelLayers",
            f"{text.layers} layers cannot be split evenly over {pipeline} stages: use "
            f"{' or '.join(fits)}",
        )
    yield from _experts(now)
    ranks, where = tensor * pipeline // now.request.nodes, " a pod" * (now.request.nodes > 1)
    if now.request.gpu_count and now.request.gpu_count != ranks:
        yield plan_error(
            "runtime.gpu.count",
            "GpuCount",
            f"{count(now.request.gpu_count, 'GPU')}{where}, and the engine has {ranks} "
            f"ranks{where}: set it to {ranks}",
        )


def _experts(now: Case) -> Iterator[SpecError]:
    """Yield errors for experts that the GPUs of a layer cannot share."""
    ranks, tensor = now.request.expert_parallel, now.request.tensor_parallel
    experts, path = now.facts.text.experts, "engine.parallelism.expert"
    if experts is None:
        if ranks > 1:
            yield plan_error(
                path, "NoExperts", f"{now.facts.architecture} has no experts here: set it to 1"
            )
        return
    if tensor % ranks or experts.count % ranks:
        fits = [
            str(one)
            for one in range(1, tensor + 1)
            if tensor % one == 0 and experts.count % one == 0
        ]
        yield plan_error(
            path,
            "ExpertParallel",
            f"{experts.count} experts cannot be shared by {ranks} of the {tensor} GPUs that split "
            f"a layer: use {' or '.join(fits)}",
        )
    elif experts.size % (tensor // ranks):
        yield plan_error(
            path,
            "ExpertWidth",
            f"experts of width {experts.size} cannot be split over {tensor // ranks} GPUs: raise "
            "it, or lower spec.engine.parallelism.tensor",
        )


def check_images(now: Case) -> Iterator[SpecError]:
    """Yield errors for images that upstream's models do not take."""
    requested, upstream, vision = now.request.max_images, now.family.trtllm, now.facts.vision
    if vision is not None and requested > upstream.max_images:
        yield plan_error(
            "engine.maxImagesPerRequest",
            "TooManyImages",
            f"{requested} images are not possible for {now.family.name}: "
            f"{upstream.max_images_reason}; use at most {upstream.max_images}",
        )


def check_videos(now: Case) -> Iterator[SpecError]:
    """Yield an error for videos that upstream's models of Triton do not take."""
    if now.request.max_video_frames is not None and not now.family.trtllm.videos:
        yield plan_error(
            "engine.maxVideoFrames",
            "VideoNotSupported",
            f"upstream's models take no video for {now.family.name}: remove the field, or use "
            "backend Reference",
        )


def check_limits(now: Case) -> Iterator[SpecError]:
    """Yield errors for limits that contradict each other or the family."""
    request = now.request
    if request.max_num_tokens is not None and request.max_num_tokens < request.max_batch_size:
        yield plan_error(
            "engine.maxNumTokens",
            "NumTokensBelowBatch",
            f"{request.max_num_tokens} is below maxBatchSize {request.max_batch_size}: every "
            "request of a step needs a token; raise it",
        )
    if request.max_encoder_input_len is not None and now.family.kind is not Kind.ENCODER_DECODER:
        yield plan_error(
            "engine.maxEncoderInputLen",
            "NoEncoder",
            f"{now.family.name} has no encoder of text or audio (mllama's limit follows from its "
            "tiles): remove the field",
        )
    cross_attention = now.family.kind is not Kind.PROMPT_TABLE
    if request.cross_fraction is not None and not cross_attention:
        yield plan_error(
            "engine.kvCache.crossFraction",
            "NoCrossAttention",
            f"{now.family.name} has no cross attention: remove the field",
        )


def check_lora(now: Case) -> Iterator[SpecError]:
    """Yield errors for adapters that are not converted, or not inspected."""
    if not now.request.lora:
        return
    if not now.family.text.adapters:
        adapted = sorted(family.name for family in FAMILIES.values() if family.text.adapters)
        yield plan_error(
            "engine.lora",
            "LoraFamily",
            f"adapters of {now.family.name} are not converted (those of "
            f"{', '.join(adapted)} are): remove the field",
        )
    elif now.facts.lora and "encoder" in now.facts.lora.modules:
        yield plan_error(
            "engine.lora",
            "LoraEncoder",
            "an adapter changes the encoder, and TensorRT-LLM's Triton backend loads its decoder "
            "part alone, so answers would lack that change: use adapters of the decoder, or "
            "backend Reference",
        )
    yield from check_inspected(now.request.lora, now.facts)


def check_source(now: Case) -> Iterator[SpecError]:
    """Yield errors for pickled weights that the spec does not allow."""
    if now.facts.weight_format == "pickle" and not now.request.allow_pickle:
        yield plan_error(
            "model.allowPickle",
            "PickleRefused",
            "the weights are pickles, which can run code when they are loaded: set it to true if "
            "you trust where they come from",
        )
