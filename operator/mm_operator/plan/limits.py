"""Every limit of the engine as a number, each with the reason for its value.

A limit that the spec leaves open is chosen from the family and the checkpoint; one that the spec
names is checked against both.
"""

from dataclasses import dataclass

from mm_api.documents.build_plan import EngineLimits, VisionPlan
from mm_api.documents.model_facts import ModelFacts, VisionFacts
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.errors import SpecError
from mm_operator.model import Choice
from mm_operator.plan.families.family import Family

ONNX_OPSET = 18
"""Lowest that torch's exporter writes without converting."""

VISION_TOLERANCE = 1e-4
"""Export against torch in float32 differed by at most 4.8e-6 on the tiny model; 20 times that."""

VISION_BATCH_CAP = 32
"""Bigger batches are cut into pieces of this size, which costs time and no failures."""

_TEXT_TOKENS = 256
"""Room for a question beside the images when the family's default leaves none."""

_ANSWER_SHARE = 4
"""An answer gets at least a quarter of the sequence when positions are short."""

_STEP_TOKENS = 8192
"""TensorRT-LLM's default of max_num_tokens."""


@dataclass(frozen=True, slots=True)
class PlannedLimits:
    """The limits of both engines and where each number comes from."""

    engine: EngineLimits
    vision: VisionPlan | None
    choices: tuple[Choice, ...]


def plan_limits(spec: MultimodalModelSpec, facts: ModelFacts, family: Family) -> PlannedLimits:
    """Return every limit.

    Raises:
        SpecError: limits of the spec contradict the checkpoint or each other.
    """
    engine = spec.engine
    images = engine.max_images_per_request if facts.vision else 0
    features = _features(facts.vision, family)
    occupied = images * features + family.template_tokens
    seq_len, seq_choice = _sequence(spec, facts, family, occupied)
    input_len, input_choice = _input(spec, family, occupied, seq_len)
    steps = engine.max_num_tokens or max(
        input_len, min(_STEP_TOKENS, engine.max_batch_size * seq_len)
    )
    multimodal_len = engine.max_batch_size * features * images
    limits = EngineLimits(
        max_batch_size=engine.max_batch_size,
        max_input_len=input_len,
        max_seq_len=seq_len,
        max_num_tokens=steps,
        max_beam_width=engine.max_beam_width,
        max_images_per_request=images,
        max_multimodal_len=multimodal_len,
    )
    vision = _vision(spec, facts.vision, features, limits)
    return PlannedLimits(
        engine=limits,
        vision=vision,
        choices=(
            seq_choice,
            input_choice,
            Choice(
                "maxNumTokens",
                str(steps),
                "as written in spec.engine.maxNumTokens"
                if engine.max_num_tokens
                else f"one whole prompt fits into a step; {_STEP_TOKENS} or less otherwise",
            ),
            Choice(
                "maxMultimodalLen",
                str(multimodal_len),
                f"{engine.max_batch_size} requests x {features} features x {images} images",
            ),
        ),
    )


def _features(vision: VisionFacts | None, family: Family) -> int:
    if vision is None:
        return 0
    expected = family.features_per_image(vision)
    if vision.features_per_image != expected:
        raise SpecError(
            reason="NotSupported",
            message=f"the checkpoint makes {vision.features_per_image} features of an image, but "
            f"family {family.name} makes {expected} of {vision.image_size} pixels in patches of "
            f"{vision.patch_size}: its vision tower is not the family's",
        )
    return expected


def _sequence(
    spec: MultimodalModelSpec, facts: ModelFacts, family: Family, occupied: int
) -> tuple[int, Choice]:
    positions = facts.text.max_position_embeddings
    asked = spec.engine.max_seq_len
    if asked is not None:
        if asked > positions:
            raise SpecError(
                reason="InvalidSpec",
                path="spec.engine.maxSeqLen",
                message=f"{asked} is above the checkpoint's {positions} positions: "
                f"use at most {positions}",
            )
        return asked, Choice("maxSeqLen", str(asked), "as written in spec.engine.maxSeqLen")
    prompt = spec.engine.max_input_len or max(family.default_input_tokens, occupied + _TEXT_TOKENS)
    wanted = prompt + family.default_output_tokens
    chosen = min(wanted, positions)
    reason = (
        f"all positions of the checkpoint; {wanted} would be the default"
        if chosen < wanted
        else f"{prompt} for the prompt and {family.default_output_tokens} for the answer"
    )
    return chosen, Choice("maxSeqLen", str(chosen), reason)


def _input(
    spec: MultimodalModelSpec, family: Family, occupied: int, seq_len: int
) -> tuple[int, Choice]:
    asked = spec.engine.max_input_len
    answer = max(1, min(family.default_output_tokens, seq_len // _ANSWER_SHARE))
    chosen = asked or seq_len - answer
    if chosen >= seq_len:
        raise SpecError(
            reason="InvalidSpec",
            path="spec.engine.maxInputLen",
            message=f"{chosen} leaves no room for an answer in sequences of {seq_len} tokens: use "
            f"at most {seq_len - 1}, or raise spec.engine.maxSeqLen",
        )
    if chosen <= occupied:
        raise SpecError(
            reason="InvalidSpec",
            path="spec.engine.maxInputLen",
            message=f"prompts of {chosen} tokens have no room for a question: "
            f"{spec.engine.max_images_per_request} images and the template take {occupied}; raise "
            "spec.engine.maxInputLen or lower spec.engine.maxImagesPerRequest",
        )
    reason = (
        "as written in spec.engine.maxInputLen"
        if asked
        else f"sequences of {seq_len} less {answer} for the answer"
    )
    return chosen, Choice("maxInputLen", str(chosen), reason)


def _vision(
    spec: MultimodalModelSpec, vision: VisionFacts | None, features: int, limits: EngineLimits
) -> VisionPlan | None:
    if vision is None or limits.max_images_per_request == 0:
        return None
    every_image = limits.max_batch_size * limits.max_images_per_request
    return VisionPlan(
        engine=spec.vision.engine,
        image_size=vision.image_size,
        features_per_image=features,
        max_batch_size=spec.vision.max_batch_size or min(every_image, VISION_BATCH_CAP),
        opset=ONNX_OPSET,
        tolerance=VISION_TOLERANCE,
    )
