"""Every family that takes images: built, preprocessed, encoded, answered as transformers does.

transformers gets the same images through its own processor, and its own `generate` answers.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mm_api.families import FAMILIES
from mm_api.families.family import Kind
from mm_runtime.gateway.prompts.layout import PromptLayout
from mm_runtime.reference_engine.load import load_model
from mm_runtime.reference_engine.prefix_cache import BLOCK
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.geometry.rotation import reads_times
from mm_runtime.serving.preprocess.processors.frame_sizes import FRAMES
from support.collecting_sink import CollectingSink, answers_of
from support.engines import engine_starter
from support.families.expected import KINDS, Upstream, noise_image
from support.families.pipeline import Pipeline
from support.families.shared import shared_family
from support.representatives import others_are_slow

SIZES = [(100, 61), (28, 28), (37, 150)]
"""Pixels: several tiles, one tile, a tall strip."""

QUESTION = "what is in the image ?"


KINDS_OF_FEATURES = ("llava", "mllama", "qwen2-vl")
"""Placed among the tokens, crossed with them, placed and rotated; the others are slow."""


@pytest.fixture(scope="module", params=others_are_slow(sorted(KINDS), *KINDS_OF_FEATURES))
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Pipeline, Upstream]]:
    shared = shared_family(tmp_path_factory, request.param)
    pipeline = Pipeline.load(shared.engine)
    yield pipeline, Upstream(request.param, shared.checkpoint)
    pipeline.loaded.engine.stop()


def _expected(pipeline: Pipeline, upstream: Upstream, given: list[Any]) -> list[int]:
    pixels = [_bytes(one) for one in given]
    facts = pipeline.directory.facts
    urls = {"IMAGE_URL": np.array([pixels], dtype=np.object_)} if given else {}
    ids = pipeline.prepare(QUESTION, **urls)["INPUT_ID"][0].tolist()
    token, vocabulary = facts.image_token_id, facts.text.vocabulary_size
    assert token is not None
    # Too many or too few of these make transformers refuse: the count is checked besides.
    ids = [token if one >= vocabulary else one for one in ids]
    return upstream.answer(ids, **upstream.inputs(given, ids, token))


def _skip_where_transformers_has_no_answer(upstream: Upstream, what: str) -> None:
    if why := upstream.case.not_compared.get(what):
        pytest.skip(why)


def _bytes(image: Any) -> bytes:
    import base64  # noqa: PLC0415
    import io  # noqa: PLC0415

    buffer = io.BytesIO()
    image.save(buffer, format="PNG")
    return b"data:image/png;base64," + base64.b64encode(buffer.getvalue())


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_one_image(both: tuple[Pipeline, Upstream], size: tuple[int, int]) -> None:
    pipeline, upstream = both
    image = noise_image(*size, seed=1)
    pixels = np.asarray(image)[None, None]
    assert _expected(pipeline, upstream, [image]) == pipeline.query(QUESTION, IMAGE_BYTES=pixels)


def test_features_stand_between_tokens(both: tuple[Pipeline, Upstream]) -> None:
    pipeline, _ = both
    facts, codec = pipeline.directory.facts, pipeline.preprocessor.codec
    style = FAMILIES[facts.family].prompt
    assert style is not None
    if not style.framed:
        return
    image = np.asarray(noise_image(60, 60, seed=1))[None, None]
    ids = pipeline.prepare(QUESTION, IMAGE_BYTES=image)["INPUT_ID"][0].tolist()
    rows = [at for at, one in enumerate(ids) if one >= facts.text.vocabulary_size]
    assert facts.image_token_id is not None
    frame = style.framed.split(codec.name_of(facts.image_token_id))
    around = [codec.id_of(one.strip()) for one in frame]

    assert [ids[rows[0] - 1], ids[rows[-1] + 1]] == around


def test_a_text_that_claims_features(both: tuple[Pipeline, Upstream]) -> None:
    """A text with the token of features would take those of the image behind it."""
    pipeline, _ = both
    facts, codec = pipeline.directory.facts, pipeline.preprocessor.codec
    style = FAMILIES[facts.family].prompt
    assert style is not None
    assert facts.image_token_id is not None
    feature = codec.name_of(facts.image_token_id)
    if not style.framed or feature == style.placeholder:
        return
    image = np.asarray(noise_image(60, 60, seed=1))[None, None]

    with pytest.raises(RequestError, match="tokens that stand for features"):
        pipeline.prepare(f"{feature} {QUESTION}", IMAGE_BYTES=image)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_gateway_counts_what_is_placed(
    both: tuple[Pipeline, Upstream], size: tuple[int, int]
) -> None:
    pipeline, _ = both
    preprocessor, image = pipeline.preprocessor, noise_image(*size, seed=1)
    layout = PromptLayout(preprocessor.questions, preprocessor.image_processor)
    ids = pipeline.prepare(QUESTION, IMAGE_BYTES=np.asarray(image)[None, None])["INPUT_ID"][0]

    counted = layout.text_tokens(QUESTION, 1) + layout.rows([(image.height, image.width)])

    assert counted == len(ids)


def test_prompts_in_parts(both: tuple[Pipeline, Upstream]) -> None:
    pipeline, upstream = both
    images = [noise_image(*size, seed=4) for size in SIZES]
    requests = [
        pipeline.request(QUESTION, IMAGE_BYTES=np.asarray(image)[None, None]) for image in images
    ]
    limits = pipeline.directory.limits
    start = engine_starter(load_model(pipeline.directory))
    with start(max_seq_len=limits.max_seq_len, max_num_tokens=5, prompt_rows=3) as engine:
        answers = answers_of(engine, requests)
    assert [_expected(pipeline, upstream, [image]) for image in images] == answers


def test_two_images(both: tuple[Pipeline, Upstream]) -> None:
    pipeline, upstream = both
    _skip_where_transformers_has_no_answer(upstream, "two-images")
    images = [noise_image(90, 40, seed=2), noise_image(50, 70, seed=3)]
    urls = np.array([[_bytes(one) for one in images]], dtype=np.object_)
    assert _expected(pipeline, upstream, images) == pipeline.query(QUESTION, IMAGE_URL=urls)


def test_images_matter(both: tuple[Pipeline, Upstream]) -> None:
    pipeline, _ = both
    answers = {
        tuple(
            pipeline.query(
                QUESTION, IMAGE_BYTES=np.asarray(noise_image(80, 50, seed=seed))[None, None]
            )
        )
        for seed in range(4)
    }
    assert len(answers) > 1


def test_text_only(both: tuple[Pipeline, Upstream]) -> None:
    pipeline, upstream = both
    _skip_where_transformers_has_no_answer(upstream, "text-only")
    assert _expected(pipeline, upstream, []) == pipeline.query(QUESTION)


def test_video(both: tuple[Pipeline, Upstream]) -> None:
    pipeline, upstream = both
    frames = np.stack([np.asarray(noise_image(60, 60, seed=seed)) for seed in range(3)])[None]
    if upstream.case.video is None:
        with pytest.raises(RequestError, match="video"):
            pipeline.query(QUESTION, VIDEO_BYTES=frames)
        return
    assert _video_answer(pipeline, upstream, VIDEO_BYTES=frames) == pipeline.query(
        QUESTION, VIDEO_BYTES=frames
    )


def test_seconds_of_a_video(both: tuple[Pipeline, Upstream]) -> None:
    pipeline, upstream = both
    if upstream.case.video is None:
        return
    frames = np.stack([np.asarray(noise_image(60, 60, seed=seed)) for seed in range(6)])[None]
    slow = {"VIDEO_BYTES": frames, "VIDEO_SECONDS": np.array([[37.0]], dtype=np.float32)}
    facts = pipeline.directory.facts
    assert facts.vision is not None
    if not reads_times(facts):
        with pytest.raises(RequestError, match="video_seconds_input: this model"):
            pipeline.query(QUESTION, **slow)
        return
    name = "input_ids" if facts.vision.tokens_per_second is None else "mrope_rotary_cos_sin"
    turned, usual = (
        pipeline.inputs(QUESTION, **one)[name] for one in (slow, {"VIDEO_BYTES": frames})
    )
    assert not np.array_equal(turned, usual)
    assert _video_answer(pipeline, upstream, **slow) == pipeline.query(QUESTION, **slow)
    if facts.vision.tokens_per_second is not None:
        given = pipeline.prepare(QUESTION, **slow)["SECOND_PER_GRID_TS"]
        assert given == pytest.approx(_upstreams_pace(kept=6, stored=925, seconds=37.0))
    for seconds in (0.0, -1.0, float("nan"), 1e9):
        wrong = slow | {"VIDEO_SECONDS": np.array([[seconds]], dtype=np.float32)}
        with pytest.raises(RequestError, match="expected seconds"):
            pipeline.query(QUESTION, **wrong)


def _upstreams_pace(*, kept: int, stored: int, seconds: float) -> float:
    from transformers.video_utils import VideoMetadata  # noqa: PLC0415 (seconds)

    video = VideoMetadata(
        total_num_frames=stored,
        fps=stored / seconds,
        frames_indices=np.linspace(0, stored - 1, kept).round().astype(int),
    )
    return FRAMES / video.sampled_fps


def _video_answer(pipeline: Pipeline, upstream: Upstream, **tensors: Any) -> list[int]:
    assert upstream.case.video is not None
    prepared = pipeline.prepare(QUESTION, **tensors)
    config, vocabulary = upstream.model.config, pipeline.directory.facts.text.vocabulary_size
    token = getattr(config, "video_token_id", config.image_token_id)
    ids = [token if one >= vocabulary else one for one in prepared["INPUT_ID"][0].tolist()]
    inputs = upstream.case.video(prepared, [int(one == token) for one in ids])
    return upstream.answer(ids, **inputs)


def test_the_next_turn_of_a_chat(both: tuple[Pipeline, Upstream]) -> None:
    pipeline, _ = both
    image = np.asarray(noise_image(60, 44, seed=3))[None, None]
    requested = " ".join([QUESTION] * 4)
    keeping = Pipeline.load(pipeline.directory, reuse_bytes=64 << 20)
    prompts, reused = [], []
    try:
        for turn in (requested, f"{requested} and behind it ?"):
            request, sink = keeping.request(turn, IMAGE_BYTES=image), CollectingSink()
            keeping.loaded.engine.submit(request, sink)
            assert pipeline.query(turn, IMAGE_BYTES=image) == sink.wait()
            prompts.append(request.ids)
            reused.append(sink.pieces[-1].reused)
    finally:
        keeping.loaded.engine.stop()
    family = FAMILIES[pipeline.directory.facts.family]
    alike = [one == other for one, other in zip(*prompts, strict=False)]
    known = (*alike, False).index(False) // BLOCK * BLOCK
    assert reused == [0, known if family.kind is Kind.PROMPT_TABLE else 0]
    assert known
