"""The real server and gateway with an engine of each family: answers are transformers' own."""

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from openai import BadRequestError

from mm_runtime.gateway.media.video import VideoLimits, read_video
from mm_runtime.reference_engine.encoder_decoder import KINDS as TEXT_KINDS
from mm_runtime.serving.prompts.starts import decoder_start
from support import documented_requests
from support.cases import cases
from support.ensemble import Ensemble, EnsembleError
from support.families.case import Case
from support.families.expected import ANSWER, KINDS, Upstream, noise_image
from support.families.images import CASES
from support.families.served import FRAMES, TEXT_FAMILIES, Family, Servers, image_part, video_part
from support.families.words import END, tokenizer
from support.images import data_url, encode
from support.video_files import video_of
from support.videos import long_video, video

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]

QUESTION = "what is in the image ?"
TEXTS = ("translate to german : i see a red square", "a circle and two squares", "what ?")
QUICK = {"qwen2-vl", "t5"}
"""One of each kind in every run; the others start a server each and are marked slow."""

IMAGE_FAMILIES = sorted(name for name, case in CASES.items() if case.prompt)
VIDEO_FAMILIES = [name for name in IMAGE_FAMILIES if CASES[name].video_mark]


def _slow(families: list[str]) -> list[object]:
    return [
        family if family in QUICK else pytest.param(family, marks=pytest.mark.slow)
        for family in families
    ]


@pytest.fixture
def served(request: pytest.FixtureRequest, servers: Servers) -> Family:
    return servers.of(request.param)


def _features(served: Family, given: list[Any]) -> int:
    facts = served.pipeline.directory.facts
    urls = [data_url(encode(one)).encode() for one in given]
    if not urls:
        return 0
    prompt = served.prompt(given)
    prepared = served.pipeline.prepare(prompt, IMAGE_URL=np.array([urls], dtype=np.object_))
    if "ASPECT_RATIO_MASK" in prepared and facts.vision is not None:  # tiles that are filled
        tile = facts.vision.features_per_image // (facts.vision.max_tiles or 1)
        return int(prepared["ASPECT_RATIO_MASK"].sum()) * tile
    return int((prepared["INPUT_ID"] >= facts.text.vocabulary_size).sum())


TEXT_PART: dict[str, object] = {"type": "text", "text": QUESTION}


@pytest.mark.parametrize(
    "served", _slow([one for one in IMAGE_FAMILIES if one in KINDS]), indirect=True
)
def test_image(served: Family) -> None:
    pipeline, family = served.pipeline, served.name
    image = noise_image(100, 61, seed=1)
    pixels = np.asarray(image)[None, None]
    upstream = Upstream(family, served.checkpoint)
    facts = pipeline.directory.facts
    ids = pipeline.prepare(QUESTION, IMAGE_BYTES=pixels)["INPUT_ID"][0].tolist()
    token = facts.image_token_id
    ids = [token if one >= facts.text.vocabulary_size else one for one in ids]
    assert token is not None
    answer = upstream.answer(ids, **upstream.inputs([image], ids, token))
    expected = pipeline.preprocessor.codec.decode(answer)
    requested = {"image_bytes_input": pixels, "max_tokens": ANSWER}
    assert expected == served.ensemble.query(QUESTION, **requested).text
    assert expected == served.ensemble.query(QUESTION, stream=True, **requested).text
    assert expected != served.ensemble.query(QUESTION, max_tokens=ANSWER).text


@pytest.mark.parametrize("served", _slow(IMAGE_FAMILIES), indirect=True)
@cases(
    "sizes", {"text-only": [], "one": [(100, 61)], "two-of-different-shape": [(90, 40), (50, 70)]}
)
def test_chat(served: Family, sizes: list[tuple[int, int]]) -> None:
    """The engine in this process gets the images as they are; the gateway has made them smaller."""
    given = [noise_image(*size, seed=seed) for seed, size in enumerate(sizes)]
    text, tokens = served.expected(given)
    parts = [*map(image_part, given), TEXT_PART]
    answer = served.chat(*parts)
    stream = served.chat(*parts, stream=True)
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    found = answer.choices[0].message.content
    assert (text, text, tokens) == (found, streamed, answer.usage.prompt_tokens)
    details = answer.usage.prompt_tokens_details
    features = details.image_tokens if details else 0
    assert _features(served, given) == features


@pytest.mark.parametrize("served", _slow(VIDEO_FAMILIES), indirect=True)
def test_video(served: Family) -> None:
    frames = [noise_image(60, 50, seed=seed) for seed in range(5)]
    row = ",".join(data_url(encode(frame)).partition(",")[2] for frame in frames)
    prompt = served.case.prompt.format(images=served.case.video_mark)
    kept = np.stack([np.asarray(frames[at]) for at in (0, 2, 4)])[None]
    tokens = len(served.pipeline.prepare(prompt, VIDEO_BYTES=kept)["INPUT_ID"][0])
    ids = served.pipeline.query(prompt, VIDEO_BYTES=kept)
    expected = served.pipeline.preprocessor.codec.decode(ids)
    part = {"type": "video_url", "video_url": {"url": f"data:video/jpeg;base64,{row}"}}
    answer = served.chat(part, TEXT_PART)
    found = answer.choices[0].message.content
    assert (expected, tokens) == (found, answer.usage.prompt_tokens)
    with pytest.raises(BadRequestError, match="either images or one video"):
        served.chat(part, image_part(frames[0]), TEXT_PART)


def _refused_together(case: Case) -> Iterator[tuple[list[dict[str, object]], str]]:
    if case.refused:
        sizes, words = case.refused
        yield [image_part(noise_image(*size, seed=1)) for size in sizes], words


@pytest.mark.parametrize("served", _slow(IMAGE_FAMILIES), indirect=True)
def test_what_the_family_cannot_do(served: Family) -> None:
    three = [image_part(noise_image(30, 30, seed=seed)) for seed in range(3)]
    for content, words in (
        ([*three, TEXT_PART], "messages\\[0\\].content\\[2\\]"),
        ([{"type": "text", "text": f"{served.case.mark} ?"}], "stands for an image"),
        ([{"type": "text", "text": "what " * 600}], "at most 400 tokens"),
        *_refused_together(served.case),
    ):
        with pytest.raises(BadRequestError, match=words):
            served.chat(*content)
    completions, model = served.openai.completions, served.pair.model
    if served.pipeline.preprocessor.codec.begin_token:
        assert completions.create(model=model, prompt="what ?", max_tokens=2).choices
    else:  # the text could be a question
        with pytest.raises(BadRequestError, match="POST /v1/chat/completions"):
            completions.create(model=model, prompt="what ?")
    assert served.chat(TEXT_PART).usage.completion_tokens > 0


@pytest.mark.parametrize("served", _slow(TEXT_FAMILIES), indirect=True)
def test_text(served: Family) -> None:
    model = getattr(transformers, TEXT_KINDS[served.name]).from_pretrained(served.checkpoint).eval()
    words = tokenizer(ends=True)
    start = decoder_start(served.checkpoint)
    for text in TEXTS:
        read = words(text)["input_ids"]
        ids = model.generate(
            input_ids=torch.tensor([read]),
            decoder_input_ids=torch.tensor([start]),
            max_new_tokens=ANSWER,
            do_sample=False,
        )[0].tolist()[len(start) :]
        answer = ids[: ids.index(END)] if END in ids else ids
        expected = words.decode(answer, skip_special_tokens=True)
        assert expected == served.ensemble.query(text, max_tokens=ANSWER).text
        assert expected == served.ensemble.query(text, max_tokens=ANSWER, stream=True).text
        requested = {"model": served.pair.model, "prompt": text, "max_tokens": ANSWER}
        complete = served.openai.completions.create(**requested, temperature=0)
        stream = served.openai.completions.create(**requested, temperature=0, stream=True)
        streamed = "".join(chunk.choices[0].text for chunk in stream)
        assert (expected, expected) == (complete.choices[0].text, streamed)
        assert len(read) == complete.usage.prompt_tokens


PAGE = Path(__file__).parents[3] / "docs" / "reference" / "request-errors.md"


def _rows(heading: str) -> dict[str, tuple[str, str, str]]:
    section = PAGE.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")]
    cells = [tuple(cell.strip() for cell in line) for line in lines[2:]]
    return {mistake: (grpc, openai, words) for mistake, grpc, openai, words in cells}


def _refused(served: Family, heading: str, triton: dict[str, Any], openai: dict[str, Any]) -> None:
    rows = _rows(heading)
    assert {*triton, *openai} == {*rows}
    for mistake, (grpc, wire, words) in rows.items():
        said = tuple(words.split("; ")) if mistake in triton and mistake in openai else (words,)
        assert (mistake in triton, mistake in openai) == (grpc != "-", wire != "-")
        if mistake in triton:
            with Ensemble(served.pair.triton_grpc) as fresh:
                with pytest.raises(EnsembleError) as refusal:
                    fresh.query(**{"text": QUESTION, "max_tokens": 4, **triton[mistake]})
                assert any(one in str(refusal.value) for one in said), str(refusal.value)
                assert fresh.query(QUESTION, max_tokens=2).outputs
        if mistake in openai:
            with pytest.raises(BadRequestError) as answer:
                openai[mistake]()
            assert wire == f"400 {answer.value.code}"
            assert any(one in answer.value.message for one in said), answer.value.message


@pytest.mark.parametrize("served", ["qwen2-vl"], indirect=True)
def test_mistakes_with_videos(served: Family) -> None:
    def shown(content: bytes, *parts: dict[str, object]) -> Callable[[], object]:
        return lambda: served.chat(video_part(content), *parts, TEXT_PART)

    _refused(
        served,
        "Models that see videos",
        triton={
            "more frames than planned": {
                "video_bytes_input": np.zeros((1, 100_000, 1, 1, 3), np.uint8)
            },
        },
        openai={
            "several videos": shown(video(3), video_part(video(3))),
            "video of 100,000 frames": shown(long_video(100_000)),
            "truncated video": shown(video(30)[:1200]),
            "video that is a web page": shown(b"<html>"),
        },
    )


@pytest.mark.parametrize("served", _slow(VIDEO_FAMILIES), indirect=True)
def test_length_of_a_video(served: Family) -> None:
    prompt = served.case.prompt.format(images=served.case.video_mark)
    seconds = np.array([[60 * FRAMES]], dtype=np.float32)
    vision = served.pipeline.directory.facts.vision
    assert vision is not None
    timed = {} if vision.tokens_per_second is None else {"VIDEO_SECONDS": seconds}

    def expected(url: str, **more: Any) -> str:
        clip = read_video(url, VideoLimits(1 << 20, 1 << 20, FRAMES))
        assert clip.seconds == 60 * FRAMES
        frames = np.stack([np.asarray(frame) for frame in clip.frames])[None]
        ids = served.pipeline.query(prompt, VIDEO_BYTES=frames, **more)
        return served.pipeline.preprocessor.codec.decode(ids)

    urls = (_slow_video(seed) for seed in range(0, 300, FRAMES))
    # Not every answer of random weights depends on times.
    url = next(one for one in urls if not timed or expected(one, **timed) != expected(one))
    answer = served.chat({"type": "video_url", "video_url": {"url": url}}, TEXT_PART)
    assert expected(url, **timed) == answer.choices[0].message.content


def _slow_video(seed: int) -> str:
    shown = [np.asarray(noise_image(60, 50, seed=seed + at)) for at in range(FRAMES)]
    return data_url(video_of(shown, [at * 60_000 for at in range(FRAMES)]), "video/mp4")


@pytest.mark.parametrize("served", ["qwen2-vl"], indirect=True)
def test_frames_of_a_video_are_chosen(served: Family) -> None:
    """DashInfer-VLM's `fps` and `num_frames`: two seconds are two frames, or as many as wanted."""
    url = f"data:video/mp4;base64,{base64.b64encode(video(50)).decode()}"

    def tokens(**choice: float) -> int:
        part = {"type": "video_url", "video_url": {"url": url, **choice}}
        return served.chat(part, TEXT_PART).usage.prompt_tokens

    # Two frames become one temporal patch; of three the last one is doubled.
    assert tokens(fps=1) == tokens(num_frames=2) == tokens(fps=2, max_frames=2)
    assert tokens(fps=1) < tokens(fps=2) == tokens(num_frames=FRAMES) == tokens()
    with pytest.raises(BadRequestError, match="at most 3 frames") as refusal:
        tokens(num_frames=FRAMES + 1)
    assert refusal.value.param == "messages[0].content[0].video_url.num_frames"


@pytest.mark.parametrize("served", ["qwen2-vl"], indirect=True)
def test_documented_videos(served: Family) -> None:
    """The page of requests shows how frames are sent; random weights answer something."""
    (example,) = documented_requests.examples("qwen2-vl")
    assert example.answer == documented_requests.ANYTHING
    assert example.run({"localhost:8001": served.pair.triton_grpc})


@pytest.mark.parametrize("served", ["t5"], indirect=True)
def test_mistakes_with_encoder_decoders(served: Family) -> None:
    completions, model = served.openai.completions, served.pair.model
    long = "what " * 70
    _refused(
        served,
        "Encoder-decoders",
        triton={
            "text longer than planned": {"text": long},
            "a search of beams": {"beam_width": 3},
            "image for a model of texts": {
                "image_bytes_input": np.zeros((1, 1, 40, 40, 3), np.uint8)
            },
            "answer of no tokens, or of too many": {"max_tokens": 0},
        },
        openai={
            "text longer than planned": lambda: completions.create(model=model, prompt=long),
            "chat with a model of texts": lambda: served.chat(TEXT_PART),
            "answer of no tokens, or of too many": lambda: completions.create(
                model=model, prompt="what ?", max_tokens=64
            ),
        },
    )
