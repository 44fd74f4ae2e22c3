"""Limits of the engines of every family, each with the reason for its value.

A limit that the spec leaves open is chosen from the family and the checkpoint, the same on every
backend.
"""

from dataclasses import dataclass

from mm_api.backends import BACKENDS
from mm_api.documents.build_plan import EngineLimits
from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.model_plan import Reason
from mm_api.families import FAMILIES
from mm_api.families.family import Family, Kind
from mm_operator.errors import SpecError
from mm_operator.plan.engine.request import PlanRequest

VISION_BATCH_CAP = 32
"""Bigger batches are cut into pieces of this size, which costs time and no failures (#sizing)."""

STEP_TOKENS = 8192
"""trtllm-build's default of max_num_tokens (#build-flags)."""

_TEXT_TOKENS = 256
"""Room for a question beside the images when the family's default leaves none."""

_ANSWER_SHARE = 4
"""An answer gets at least a quarter of the sequence when positions are short."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits, what one request brings along, and why."""

    engine: EngineLimits
    features_per_image: int
    """Rows of the prompt table for one image, or encoder tokens (mllama)."""
    vision_batch: int
    """Images or tiles that the vision engine takes at once; 0: there is none."""
    request_features: int
    """Rows of the prompt table, or encoder tokens, of one request at the most."""
    reasons: tuple[Reason, ...]


def plan_limits(request: PlanRequest, facts: ModelFacts, family: Family) -> Limits:
    """Return every limit. SpecError: the spec contradicts the checkpoint, the family or itself."""
    if family.kind is Kind.ENCODER_DECODER:
        if request.max_multimodal_len is not None:
            _bounded(request.max_multimodal_len, request, facts, family, 0)
        return _encoder_decoder(request, facts, family)
    return _decoder(request, facts, family)


def _decoder(request: PlanRequest, facts: ModelFacts, family: Family) -> Limits:
    vision = facts.vision
    images = request.max_images if vision else 0
    features = family.layout.features_per_image(vision) if vision else 0
    rows = family.request_features(vision, images, request.backend) if vision else 0
    source = f"{images} x {features} features"
    if rows != images * features:
        source = f"{rows} features of 1 or of {images} images"
    if request.max_video_frames is not None:
        rows, source = _video(request.max_video_frames, facts, family, rows, source)
    if request.max_multimodal_len is not None:
        rows = _bounded(request.max_multimodal_len, request, facts, family, rows)
        features, source = min(features, rows), f"{rows} features as written"
    table = family.kind is Kind.PROMPT_TABLE
    frames = images * family.layout.frame_tokens(vision) if vision else 0
    recording = _recording_tokens(facts, family)
    occupied = (rows if table else images) + frames + recording + family.template_tokens
    seq_len, seq_reason = _sequence(request, facts, family, occupied)
    input_len, input_reason = _input(request, family, occupied, seq_len)
    batch = request.max_batch_size
    usual = max(input_len, min(STEP_TOKENS, batch * seq_len))
    short = usual if request.prompt_step is None else min(usual, batch + request.prompt_step)
    steps = request.max_num_tokens or short
    tiles = family.request_tiles(vision, images, request.backend) if vision and images else 0
    multimodal_len = request.max_multimodal_len or (batch * rows if table else 0)
    encoder_len = 0 if table else max(1, rows)
    reasons = [seq_reason, input_reason, _steps_reason(request, steps)]
    reasons.append(
        _reason("maxMultimodalLen", multimodal_len, f"{batch} requests x {source}")
        if table
        else _reason("maxEncoderInputLen", encoder_len, f"{source}: tiles x positions of a tile")
    )
    together = _vision_batch(request, batch * tiles)
    if not family.has_tower:
        # A video is read in one pass, too: so many images of the largest size.
        video = (
            -(-rows // features) * family.layout.tiles_per_image(vision)
            if vision and features
            else 0
        )
        together = max(together, tiles, video)
    return Limits(
        EngineLimits(
            max_batch_size=batch,
            max_input_len=input_len,
            max_seq_len=seq_len,
            max_num_tokens=steps,
            max_beam_width=request.max_beam_width,
            max_images_per_request=images,
            max_multimodal_len=multimodal_len,
            max_encoder_input_len=encoder_len or None,
        ),
        features_per_image=features,
        vision_batch=together,
        request_features=rows,
        reasons=tuple(reasons),
    )


def _video(
    frames: int, facts: ModelFacts, family: Family, least: int, source: str
) -> tuple[int, str]:
    if family.layout.video_features is None or facts.vision is None:
        others = (name for name, one in FAMILIES.items() if one.layout.video_features is not None)
        raise SpecError(
            "VideoNotSupported",
            f"family {family.name} takes no video: remove the field, or use a checkpoint of"
            f" {', '.join(sorted(others))}",
            "spec.engine.maxVideoFrames",
        )
    rows = family.layout.video_features(facts.vision, frames)
    return (rows, f"{rows} features of {frames} frames") if rows > least else (least, source)


def _bounded(
    wanted: int, request: PlanRequest, facts: ModelFacts, family: Family, most: int
) -> int:
    """Return the rows of one request: its part of a prompt table as written."""
    vision, layout, batch = facts.vision, family.layout, request.max_batch_size
    path = "spec.engine.maxMultimodalLen"
    if vision is None or layout.least_features is None or BACKENDS[request.backend].stages:
        raise SpecError(
            "MultimodalLenNotSupported",
            f"the planned rows of {family.name} on {request.backend} follow from its images alone: "
            "remove the field",
            path,
        )
    least = layout.least_features(vision)
    if request.max_images > 1 and layout.features_of_several is not None:
        least = max(least, request.max_images * layout.features_of_several(vision))
    if request.max_video_frames and layout.video_features is not None:
        least = max(least, layout.video_features(vision, request.max_video_frames))
    if not batch * least <= wanted <= batch * most:
        raise SpecError(
            "MultimodalLen",
            f"{wanted} rows are outside what {batch} x {least} to {most} features take: use "
            f"{batch * least} to {batch * most}, or remove the field",
            path,
        )
    return wanted // batch


def _recording_tokens(facts: ModelFacts, family: Family) -> int:
    if facts.audio is None or family.audio_features is None:
        return 0
    return family.audio_features(facts.audio.most_samples)


def _sequence(
    request: PlanRequest, facts: ModelFacts, family: Family, occupied: int
) -> tuple[int, Reason]:
    positions = facts.text.max_position_embeddings
    requested = request.max_seq_len
    if requested is not None:
        if requested > positions:
            raise SpecError(
                "SeqLenAbovePositions",
                f"{requested} is above the checkpoint's {positions} positions: use at most "
                f"{positions}",
                "spec.engine.maxSeqLen",
            )
        return requested, _reason("maxSeqLen", requested, "", written=requested)
    prompt = request.max_input_len or max(family.default_input_tokens, occupied + _TEXT_TOKENS)
    wanted = prompt + family.default_output_tokens
    chosen = min(wanted, positions)
    reason = (
        f"all positions of the checkpoint; {wanted} would be the default"
        if chosen < wanted
        else f"{prompt} for the prompt and {family.default_output_tokens} for the answer"
    )
    return chosen, _reason("maxSeqLen", chosen, reason)


def _input(request: PlanRequest, family: Family, occupied: int, seq_len: int) -> tuple[int, Reason]:
    requested = request.max_input_len
    answer = max(1, min(family.default_output_tokens, seq_len // _ANSWER_SHARE))
    chosen = requested or seq_len - answer
    if chosen >= seq_len:
        raise SpecError(
            "InputLenNotBelowSeqLen",
            f"{chosen} leaves no room for an answer in sequences of {seq_len} tokens: use at most "
            f"{seq_len - 1}, or raise spec.engine.maxSeqLen",
            "spec.engine.maxInputLen",
        )
    if chosen <= occupied:
        media, field = f"{request.max_images} images", "spec.engine.maxImagesPerRequest"
        if request.max_video_frames is not None:
            media = f"{media} or {request.max_video_frames} frames"
            field = f"{field} or spec.engine.maxVideoFrames"
        raise SpecError(
            "InputLenTooShort",
            f"prompts of {chosen} tokens have no room for a question: {media} "
            f"and the template take {occupied}; raise spec.engine.maxInputLen or "
            f"spec.engine.maxSeqLen, or lower {field}",
            "spec.engine.maxInputLen",
        )
    why = f"sequences of {seq_len} less {answer} for the answer"
    return chosen, _reason("maxInputLen", chosen, why, written=requested)


def _encoder_decoder(request: PlanRequest, facts: ModelFacts, family: Family) -> Limits:
    positions = facts.encoder.max_positions if facts.encoder else None
    reads_audio = facts.encoder is not None and facts.encoder.mel_bins is not None
    # A position of Whisper's encoder stands for two frames of its input.
    most = positions * 2 if reads_audio and positions else positions
    default = family.default_encoder_tokens
    read = request.max_encoder_input_len or (min(default, most) if most else default)
    if most is not None and read > most:
        raise SpecError(
            "EncoderInputLenAbovePositions",
            f"{read} is above what the encoder has positions for: use at most {most}",
            "spec.engine.maxEncoderInputLen",
        )
    prompt = request.max_input_len or family.decoder_input_tokens
    exact = facts.encoder is None or facts.encoder.mel_bins is None
    answers = facts.text.max_position_embeddings
    start = family.decoder_input_tokens
    least, most_ids = (start, answers - 1) if exact else (1, start)
    if not least <= prompt <= most_ids:
        raise SpecError(
            "DecoderInputLen",
            f"{prompt} is no length of a decoder's prompt: use {least} to {most_ids}; "
            "spec.engine.maxEncoderInputLen is the limit of what the encoder reads",
            "spec.engine.maxInputLen",
        )
    wanted = prompt + family.default_output_tokens
    seq_len = request.max_seq_len or min(wanted, answers)
    if seq_len > answers:
        raise SpecError(
            "SeqLenAbovePositions",
            f"{seq_len} is above the decoder's {answers} positions: use at most {answers}",
            "spec.engine.maxSeqLen",
        )
    if seq_len <= prompt:
        raise SpecError(
            "InputLenNotBelowSeqLen",
            f"{seq_len} leaves no room for an answer behind {prompt} ids of the prompt: raise it",
            "spec.engine.maxSeqLen",
        )
    batch = request.max_batch_size
    steps = request.max_num_tokens or max(prompt, min(STEP_TOKENS, batch * seq_len))
    reasons = (
        _reason(
            "maxEncoderInputLen",
            read,
            "the family's default, within the encoder's positions",
            written=request.max_encoder_input_len,
        ),
        _reason(
            "maxInputLen",
            prompt,
            "ids that the decoder starts from; the prompt goes to the encoder",
        ),
        _reason(
            "maxSeqLen",
            seq_len,
            f"{seq_len - prompt} ids of answer behind {prompt} of the prompt",
            written=request.max_seq_len,
        ),
        _steps_reason(request, steps),
    )
    return Limits(
        EngineLimits(
            max_batch_size=batch,
            max_input_len=prompt,
            max_seq_len=seq_len,
            max_num_tokens=steps,
            max_beam_width=request.max_beam_width,
            max_images_per_request=0,
            max_multimodal_len=0,
            max_encoder_input_len=read,
        ),
        features_per_image=0,
        vision_batch=0,
        request_features=read,
        reasons=reasons,
    )


def _vision_batch(request: PlanRequest, every: int) -> int:
    return (request.vision_max_batch_size or min(every, VISION_BATCH_CAP)) if every else 0


def _steps_reason(request: PlanRequest, steps: int) -> Reason:
    why = f"one complete prompt fits into a step; {STEP_TOKENS} or less otherwise"
    if request.prompt_step is not None:
        why = "streams wait for a step: a token of each sequence, and a part of a prompt"
    return _reason("maxNumTokens", steps, why, written=request.max_num_tokens)


def _reason(field: str, value: int, why: str, *, written: int | None = None) -> Reason:
    reason = f"as written in spec.engine.{field}" if written else why
    return Reason(field=field, value=str(value), reason=reason)
