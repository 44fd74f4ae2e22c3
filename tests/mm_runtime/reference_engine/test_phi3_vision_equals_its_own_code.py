"""Phi-3-vision, for which transformers has no class: answers are those of a port of its code."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mm_api.families import FAMILIES
from mm_runtime.base.chat_template import Media, Turn
from mm_runtime.gateway.prompts.templates import load_template
from mm_runtime.reference_engine.load import load_model
from mm_runtime.serving.encode.encoding import encode_requests
from mm_runtime.serving.encode.vision.load import load_encoder
from mm_runtime.serving.errors import RequestError
from support.cases import cases
from support.collecting_sink import CollectingSink
from support.engines import engine_starter
from support.families.expected import noise_image
from support.families.images import write
from support.families.phi3_vision import CROPS, POSITIONS, SIDE, TOKENS
from support.families.pipeline import Pipeline, build
from support.families.words import END, id_of
from support.phi3_vision_upstream import Upstream

QUESTION = "what is in the image ?"
ENDS = {END, id_of("<|end|>", TOKENS)}
SIZES = [(100, 61), (56, 56), (37, 150), (301, 17), (15, 400)]
"""Pixels: two columns of tiles, a tile's own size, a tall strip, a flat and a thin one."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Pipeline, Upstream]]:
    """An engine, and the checkpoint it was built from as its own code reads it."""
    folder = tmp_path_factory.mktemp("phi3-vision")
    checkpoint = write("phi3-vision", folder / "checkpoint")
    pipeline = Pipeline.load(build(checkpoint, folder / "store"))
    yield pipeline, Upstream(checkpoint)
    pipeline.loaded.engine.stop()


def _prompt(images: int, question: str = QUESTION) -> str:
    places = "".join(f"<|image_{number}|>\n" for number in range(1, images + 1))
    return f"<|user|>\n{places}{question}<|end|>\n<|assistant|>\n"


def _pixels(*images: Any) -> dict[str, Any]:
    """Return images of any sizes as a request has them."""
    if not images:
        return {}
    sizes = np.array([[[one.height, one.width] for one in images]], np.int32)
    canvas = np.zeros((1, len(images), *sizes.max(axis=(0, 1)), 3), np.uint8)
    for at, one in enumerate(images):
        canvas[0, at, : one.height, : one.width] = np.asarray(one)
    return {"IMAGE_BYTES": canvas, "PICTURE_SIZES": sizes}


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_an_image(both: tuple[Pipeline, Upstream], size: tuple[int, int]) -> None:
    """Pixels, number of tokens and features of any shape, and the answer."""
    pipeline, upstream = both
    image = noise_image(*size, seed=1)
    expected, sizes, counts = upstream.pixels([image])
    used = int(np.prod(sizes[0])) // SIDE**2 + 1

    prepared = pipeline.prepare(QUESTION, **_pixels(image))
    given = {name.lower(): value for name, value in prepared.items()}
    given |= {"max_tokens": prepared["REQUEST_OUTPUT_LEN"]}
    assert pipeline.directory.vision is not None
    encoder = load_encoder(pipeline.directory, pipeline.directory.vision)
    encoded = encode_requests(encoder, [given], np.float32)[0]
    assert not isinstance(encoded, RequestError)

    found = prepared["PIXEL_VALUES"][0].astype(np.float32)
    np.testing.assert_allclose(found, expected[0, :used].numpy(), atol=2e-3)
    ids = prepared["INPUT_ID"][0]
    assert sum(ids >= pipeline.loaded.vocabulary_size) == counts[0]
    rows = upstream.features(expected, sizes).detach().numpy()
    np.testing.assert_allclose(encoded["OUT_PROMPT_EMBEDDING_TABLE"][0], rows, atol=2e-3)
    answer = upstream.answer(_prompt(1), [image], 16, ENDS)
    assert answer == pipeline.query(QUESTION, **_pixels(image))
    assert answer


def test_images_of_several_shapes(both: tuple[Pipeline, Upstream]) -> None:
    """Each has its tokens where it stands, and the text behind it has the begin token."""
    pipeline, upstream = both
    images = [noise_image(90, 40, seed=2), noise_image(50, 170, seed=3)]

    expected = upstream.answer(_prompt(2), images, 16, ENDS)

    assert expected == pipeline.query(QUESTION, **_pixels(*images))
    assert expected == pipeline.query(_prompt(2), **_pixels(*images))


def test_text_alone(both: tuple[Pipeline, Upstream]) -> None:
    """A question without an image."""
    pipeline, upstream = both

    assert upstream.answer(_prompt(0), [], 16, ENDS) == pipeline.query(QUESTION)


def test_images_matter(both: tuple[Pipeline, Upstream]) -> None:
    """Another image, another answer: what is compared above depends on the images."""
    pipeline, _ = both
    images = [noise_image(80, 50, seed=seed) for seed in range(4)]

    assert len({tuple(pipeline.query(QUESTION, **_pixels(one))) for one in images}) > 1


def test_tokens_of_the_prompt(both: tuple[Pipeline, Upstream]) -> None:
    """The begin token stands before each part of the text, as the checkpoint's processor has it."""
    pipeline, upstream = both
    images = [noise_image(60, 60, seed=1), noise_image(30, 90, seed=2)]
    counts = upstream.pixels(images)[2]

    found = pipeline.prepare(QUESTION, **_pixels(*images))["INPUT_ID"][0].tolist()

    size = pipeline.loaded.vocabulary_size
    expected = upstream.ids(_prompt(2), counts)
    assert [min(one, size) for one in found] == [one if one >= 0 else size for one in expected]
    assert [one for one in found if one >= size] == [*range(size, size + sum(counts))]


@pytest.mark.parametrize("words", [280, 290, 320], ids=["below", "across", "beyond"])
def test_rotations_follow_the_length(both: tuple[Pipeline, Upstream], words: int) -> None:
    """Short and long requests in one pass, each with the factors of the longest it may become."""
    pipeline, upstream = both
    texts = [QUESTION, " ".join(["what"] * words)]
    requests = [pipeline.request(one) for one in texts]
    length = len(requests[1].ids)
    crosses = length <= POSITIONS < length + requests[1].max_tokens - 1
    assert crosses is (words == 290)
    limits = pipeline.directory.limits
    start = engine_starter(load_model(pipeline.directory))
    sinks = [CollectingSink() for _ in requests]
    with start(max_seq_len=limits.max_seq_len, max_num_tokens=64, prompt_rows=16) as engine:
        for request, sink in zip(requests, sinks, strict=True):
            engine.submit(request, sink)
        found = [sink.wait() for sink in sinks]
    expected = [upstream.answer(_prompt(0, texts[0]), [], 16, ENDS)]
    upstream.always_long = crosses
    expected.append(upstream.answer(_prompt(0, texts[1]), [], 16, ENDS))
    upstream.always_long = False

    assert found == expected


def test_keys_of_other_rotations_are_not_found(both: tuple[Pipeline, Upstream]) -> None:
    """A longer prompt that begins alike is computed from its start, and found again by itself."""
    pipeline, upstream = both
    keeping = Pipeline.load(pipeline.directory, reuse_bytes=64 << 20)
    short, long = (" ".join(["what"] * words) for words in (200, 320))
    reused = []
    try:
        for text in (short, long, long):
            sink = CollectingSink()
            keeping.loaded.engine.submit(keeping.request(text), sink)
            assert sink.wait() == upstream.answer(_prompt(0, text), [], 16, ENDS)
            reused.append(sink.pieces[-1].reused)
    finally:
        keeping.loaded.engine.stop()

    assert reused[:2] == [0, 0]
    assert reused[2] > POSITIONS


@cases(
    "text words",
    {
        "another-order": ("<|image_2|>\n<|image_1|>\nwhat ?", "numbers [2, 1]"),
        "twice": ("<|image_1|>\n<|image_1|>\nwhat ?", "numbers [1, 1]"),
        "too-few": ("<|image_1|>\nwhat ?", "1 <|image|> placeholder"),
    },
)
def test_placeholders_count_images(both: tuple[Pipeline, Upstream], text: str, words: str) -> None:
    """Upstream's own code would give features of one image to another."""
    pipeline, _ = both
    images = [noise_image(60, 60, seed=seed) for seed in (1, 2)]

    with pytest.raises(RequestError) as refused:
        pipeline.prepare(text, **_pixels(*images))

    assert words in str(refused.value)


@pytest.mark.parametrize("size", [(1, 6000), (6000, 1)], ids=["thin", "flat"])
def test_an_image_without_a_side(both: tuple[Pipeline, Upstream], size: tuple[int, int]) -> None:
    """Scaled to the tiles its shorter side would be nothing; upstream's resize fails on it."""
    pipeline, _ = both

    with pytest.raises(RequestError, match=f"too thin: scaled to {CROPS} tiles"):
        pipeline.prepare(QUESTION, **_pixels(noise_image(*size, seed=1)))


def test_conversations_are_written_as_the_models_page_does(both: tuple[Pipeline, Upstream]) -> None:
    """Turns, a system message and images at their places, of an engine's own files."""
    pipeline, _ = both
    style = FAMILIES["phi3-vision"].prompt
    assert style is not None
    template = load_template(pipeline.directory.processor, style, pipeline.directory.tokenizer)
    turns = [
        Turn("system", ("be short",)),
        Turn("user", (Media.IMAGE, "what ?")),
        Turn("assistant", ("a circle",)),
        Turn("user", (Media.IMAGE, "and this ?")),
    ]

    assert template.render(turns) == (
        "<|system|>\nbe short<|end|>\n<|user|>\n<|image|>\nwhat ?<|end|>\n<|assistant|>\n"
        "a circle<|end|>\n<|user|>\n<|image|>\nand this ?<|end|>\n<|assistant|>\n"
    )


def test_layers_on_disk(both: tuple[Pipeline, Upstream], tmp_path: Path) -> None:
    """A checkpoint larger than memory is read from its own files."""
    pipeline, _ = both
    image = noise_image(60, 60, seed=1)
    request, sink = pipeline.request(QUESTION, **_pixels(image)), CollectingSink()
    start = engine_starter(load_model(pipeline.directory, streamed=tmp_path))
    limits = pipeline.directory.limits
    with start(max_seq_len=limits.max_seq_len, max_num_tokens=limits.max_num_tokens) as engine:
        engine.submit(request, sink)
        answer = sink.wait()

    assert answer == pipeline.query(QUESTION, **_pixels(image))
