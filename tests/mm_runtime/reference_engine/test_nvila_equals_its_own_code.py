"""NVILA, for which transformers has no class: answers are those of a port of VILA's code."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch

from mm_api.families import FAMILIES
from mm_runtime.base.chat_template import Media, Turn
from mm_runtime.gateway.prompts.templates import load_template
from mm_runtime.reference_engine.load import load_model
from mm_runtime.serving.encode.encoding import encode_requests
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.prompts.styles import style_of
from support.collecting_sink import CollectingSink
from support.engines import engine_starter
from support.families.expected import noise_image
from support.families.nvila import SIDE, TOKENS, write, write_of_pairs, write_of_scales
from support.families.pipeline import Pipeline, build
from support.families.words import id_of
from support.nvila_upstream import Upstream
from support.representatives import others_are_slow

QUESTION = "what is in the image ?"
ENDS = {id_of("<|im_end|>", TOKENS)}
"""`stop_token_ids`: the tokenizer's end, and what the template puts behind an answer. VILA's code
does not read llm/generation_config.json, which lists another one."""

SIZES = [(100, 61), (SIDE, SIDE), (37, 150), (301, 17), (400, 400), (15, 400)]
"""Pixels: two columns of tiles, a tile's own size, a tall strip, a flat one, four tiles, a thin
one."""

WRITERS = {
    "3x3": write,
    "2x2": write_of_pairs,
    "scales": write_of_scales,
    "scales-in-torch": write_of_scales,
}

Both = tuple[Pipeline, Upstream]


@pytest.fixture(scope="module", params=others_are_slow(WRITERS, "3x3", "scales"))
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Both]:
    """An engine, and the checkpoint it was built from as its own code reads it."""
    folder = tmp_path_factory.mktemp("nvila")
    checkpoint = _written(WRITERS[request.param], folder / "checkpoint")
    vision: Literal["Torch", "ONNXRuntime"] = (
        "Torch" if request.param.endswith("torch") else "ONNXRuntime"
    )
    pipeline = Pipeline.load(build(checkpoint, folder / "store", vision=vision))
    yield pipeline, Upstream(checkpoint)
    pipeline.loaded.engine.stop()


def _written(make: Callable[[Path], None], folder: Path) -> Path:
    torch.manual_seed(11)
    folder.mkdir()
    make(folder)
    return folder


def _pixels(*images: Any) -> dict[str, Any]:
    """Return images of any sizes as a request has them."""
    sizes = np.array([[[one.height, one.width] for one in images]], np.int32)
    canvas = np.zeros((1, len(images), *sizes.max(axis=(0, 1)), 3), np.uint8)
    for at, one in enumerate(images):
        canvas[0, at, : one.height, : one.width] = np.asarray(one)
    return {"IMAGE_BYTES": canvas, "PICTURE_SIZES": sizes}


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_an_image(both: Both, size: tuple[int, int]) -> None:
    """Pixels and features of any shape, every row that the language model reads, the answer."""
    pipeline, upstream = both
    image = noise_image(*size, seed=1)
    tiles = upstream.pixels([image])

    prepared = pipeline.prepare(QUESTION, **_pixels(image))
    wanted = {name.lower(): value for name, value in prepared.items()}
    wanted |= {"max_tokens": prepared["REQUEST_OUTPUT_LEN"]}
    encoded = encode_requests(pipeline.encoder, [wanted], np.float32)[0]
    assert not isinstance(encoded, RequestError)

    np.testing.assert_allclose(prepared["PIXEL_VALUES"][0], tiles.numpy(), atol=2e-3)
    rows = encoded["OUT_PROMPT_EMBEDDING_TABLE"][0]
    features = torch.cat(list(upstream.encode(tiles)))
    np.testing.assert_allclose(rows, features.numpy(), atol=2e-3)
    read = _rows(pipeline, prepared["INPUT_ID"][0].tolist(), rows)
    expected = upstream.embedded([image, QUESTION]).numpy()
    np.testing.assert_allclose(read, expected, atol=2e-3)
    answer = upstream.answer([image, QUESTION], 16, ENDS)
    assert answer == pipeline.query(QUESTION, **_pixels(image))
    assert answer


def _rows(pipeline: Pipeline, ids: list[int], table: Any) -> Any:
    model: Any = load_model(pipeline.directory)
    return model.embed(tuple(ids), table).numpy()


def test_images_of_several_shapes(both: Both) -> None:
    """Each is one tile, however large it is."""
    pipeline, upstream = both
    images = [noise_image(90, 140, seed=2), noise_image(300, 70, seed=3)]

    expected = upstream.answer([*images, QUESTION], 16, ENDS)

    assert expected == pipeline.query(QUESTION, **_pixels(*images))


def test_text_alone(both: Both) -> None:
    """A question without an image."""
    pipeline, upstream = both

    assert upstream.answer([QUESTION], 16, ENDS) == pipeline.query(QUESTION)


def test_images_matter(both: Both) -> None:
    """Another image, another answer: what is compared above depends on the images."""
    pipeline, _ = both
    images = [noise_image(80, 50, seed=seed) for seed in range(4)]

    assert len({tuple(pipeline.query(QUESTION, **_pixels(one))) for one in images}) > 1


@pytest.mark.parametrize(
    "before", ["", "the image : ", "one \n"], ids=["first", "behind-a-text", "behind-a-line"]
)
@pytest.mark.parametrize("behind", ["what ?", "\nwhat ?", "\n\nwhat ?"], ids=["text", "1", "2"])
def test_lines_around_an_image(both: Both, before: str, behind: str) -> None:
    """The line break of the last tile is joined with those that follow, no other one is."""
    pipeline, upstream = both
    image = noise_image(100, 61, seed=1)
    parts: list[Any] = [before, image, behind]
    template = load_template(
        pipeline.directory.processor,
        style_of(pipeline.directory, pipeline.preprocessor.codec),
        pipeline.directory.tokenizer,
    )
    prompt = template.render([Turn("user", (before, Media.IMAGE, behind))])
    processor = pipeline.preprocessor.image_processor
    assert processor is not None

    prepared = pipeline.prepare(prompt, **_pixels(image))
    (frame,) = processor.frames_of([(image.height, image.width)])

    ids = prepared["INPUT_ID"][0].tolist()
    assert len(ids) == len(upstream.embedded(parts))
    questions = pipeline.preprocessor.questions
    without = questions.write(prompt, None, (1,), video=False).ids
    assert len(ids) == len(without) - 1 + questions.tokens_of(frame)
    assert upstream.answer(parts, 16, ENDS) == pipeline.query(prompt, **_pixels(image))


def test_conversations_are_written_as_the_template_does(both: Both) -> None:
    """Turns, and images at their places without a line of their own."""
    pipeline, _ = both
    style = FAMILIES["nvila"].prompt
    assert style is not None
    turns = [
        Turn("user", (Media.IMAGE, "what ?")),
        Turn("assistant", ("a circle",)),
        Turn("user", (Media.IMAGE, Media.IMAGE, "and this ?")),
    ]
    expected = (
        "<|im_start|>system\nYou are a helpful assistant<|im_end|>\n"
        "<|im_start|>user\n<image>what ?<|im_end|>\n<|im_start|>assistant\na circle<|im_end|>\n"
        "<|im_start|>user\n<image><image>and this ?<|im_end|>\n<|im_start|>assistant\n"
    )

    own = load_template(pipeline.directory.processor, style, pipeline.directory.tokenizer)
    familys = load_template(pipeline.directory.processor, style)

    assert own.render(turns) == familys.render(turns) == expected


def test_requests_share_passes(both: Both) -> None:
    """Images and texts at one time, each with its answer."""
    pipeline, upstream = both
    image = noise_image(150, 60, seed=5)
    requests = [pipeline.request(QUESTION, **_pixels(image)), pipeline.request("a circle ?")]
    start = engine_starter(load_model(pipeline.directory))
    sinks = [CollectingSink() for _ in requests]
    limits = pipeline.directory.limits
    with start(max_seq_len=limits.max_seq_len, max_num_tokens=64, prompt_rows=16) as engine:
        for request, sink in zip(requests, sinks, strict=True):
            engine.submit(request, sink)
        found = [sink.wait() for sink in sinks]

    expected = [[image, QUESTION], ["a circle ?"]]
    assert found == [upstream.answer(parts, 16, ENDS) for parts in expected]
