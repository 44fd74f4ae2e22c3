"""Limits of a Reference engine: the same rules as for TensorRT-LLM, in the documents' own types."""

from dataclasses import dataclass

from mm_api.conditions import Reason
from mm_api.documents.build_plan import EngineLimits, VisionPlan
from mm_api.documents.model_facts import ModelFacts, VisionFacts
from mm_api.families.family import Family, Kind
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.errors import SpecError
from mm_operator.model import Choice
from mm_operator.plan.engine import limits as sizing
from mm_operator.plan.engine.request import ask_of

ONNX_OPSET = 18
"""Lowest that torch's exporter writes without converting."""

VISION_TOLERANCE = 1e-4
"""Export against torch in float32 differed by at most 4.8e-6 on the tiny model; 20 times that."""


_FRAMES_BY_DEFAULT = 32
"""LLaVA-OneVision's papers evaluate videos with as many."""


@dataclass(frozen=True, slots=True)
class PlannedLimits:
    """The limits of both engines and where each number comes from."""

    engine: EngineLimits
    vision: VisionPlan | None
    choices: tuple[Choice, ...]
    sized: sizing.Sized
    video_frames: int


def plan_limits(spec: MultimodalModelSpec, facts: ModelFacts, family: Family) -> PlannedLimits:
    """Return every limit.

    Raises:
        SpecError: limits of the spec contradict the checkpoint, the family or each other; its
            reason is a condition's.
    """
    _check_tower(facts.vision, family)
    if spec.engine.max_encoder_input_len is not None and family.kind is not Kind.ENCODER_DECODER:
        raise SpecError(
            Reason.INVALID_SPEC,
            f"{family.name} has no encoder of text (mllama's limit follows from its tiles): remove "
            "the field",
            "spec.engine.maxEncoderInputLen",
        )
    _check_beams(spec, family)
    try:
        sized = sizing.plan_limits(ask_of(spec), facts, family)
    except SpecError as error:
        raise SpecError(Reason.INVALID_SPEC, error.message, error.path) from error
    found = sized.limits
    engine = EngineLimits(
        max_batch_size=found.max_batch_size,
        max_input_len=found.max_input_len,
        max_seq_len=found.max_seq_len,
        max_num_tokens=found.max_num_tokens,
        max_beam_width=found.max_beam_width,
        max_images_per_request=found.max_images_per_request,
        max_multimodal_len=found.max_multimodal_len,
        max_encoder_input_len=found.max_encoder_input_len or None,
    )
    return PlannedLimits(
        engine=engine,
        vision=_vision(spec, facts.vision, sized),
        choices=tuple(Choice(one.field, one.value, one.reason) for one in sized.reasons),
        sized=sized,
        video_frames=_video_frames(spec, facts.vision, family, sized),
    )


def _video_frames(
    spec: MultimodalModelSpec, vision: VisionFacts | None, family: Family, sized: sizing.Sized
) -> int:
    """Return the frames of a video: as asked, else what the images of a request leave room for."""
    if vision is None or family.video_features is None or not sized.limits.vision_max_batch_size:
        return 0
    if spec.engine.max_video_frames is not None:
        return spec.engine.max_video_frames
    fit = 0
    while fit < _FRAMES_BY_DEFAULT and (
        family.video_features(vision, fit + 1) <= sized.request_features
    ):
        fit += 1
    return fit


def _check_beams(spec: MultimodalModelSpec, family: Family) -> None:
    searches = family.kind is Kind.ENCODER_DECODER
    if spec.engine.backend == "Reference" and spec.engine.max_beam_width > 1 and not searches:
        raise SpecError(
            Reason.NOT_SUPPORTED,
            f"on the Reference backend only encoder-decoders search with beams, and {family.name} "
            "is none: set engine.maxBeamWidth to 1",
            "spec.engine.maxBeamWidth",
        )


def _check_tower(vision: VisionFacts | None, family: Family) -> None:
    if vision is None or not family.fixed_features:
        return
    expected = family.features_per_image(vision)
    if vision.features_per_image != expected:
        raise SpecError(
            Reason.NOT_SUPPORTED,
            f"the checkpoint makes {vision.features_per_image} features of an image, but "
            f"family {family.name} makes {expected} of {vision.image_size} pixels in patches of "
            f"{vision.patch_size}: its vision tower is not the family's",
        )


def _vision(
    spec: MultimodalModelSpec, vision: VisionFacts | None, sized: sizing.Sized
) -> VisionPlan | None:
    limits = sized.limits
    if vision is None or not limits.vision_max_batch_size:
        return None
    return VisionPlan(
        engine=spec.vision.engine,
        image_size=vision.image_size,
        features_per_image=limits.features_per_image,
        max_batch_size=limits.vision_max_batch_size,
        opset=ONNX_OPSET,
        tolerance=VISION_TOLERANCE,
    )
