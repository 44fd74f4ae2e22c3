"""InternVL in OpenGVLab's layout answers as transformers does in that of its own class."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mm_runtime.base.chat_template_files import find_chat_template
from mm_runtime.reference_engine.load import load_model
from support.collecting_sink import CollectingSink
from support.engines import engine_starter
from support.families.expected import Upstream, noise_image
from support.families.pipeline import Pipeline, build
from support.families.words import END, id_of
from support.opengvlab import CODE, TOKENS, write_both

FAMILY = "internvl"
QUESTION = "what is in the image ?"
SIZES = [(100, 61), (28, 28), (37, 150)]
"""Pixels: several tiles, one tile, a tall strip."""


@pytest.fixture(
    scope="module",
    params=[
        "qwen2",
        pytest.param("qwen3", marks=pytest.mark.slow),
        pytest.param("llama", marks=pytest.mark.slow),
    ],
)
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Pipeline, Upstream, Path]]:
    """An engine of OpenGVLab's layout, and the same weights in transformers."""
    folder = tmp_path_factory.mktemp("layouts")
    classes, own = write_both(folder, request.param)
    pipeline = Pipeline.load(build(own, folder / "store"))
    yield pipeline, Upstream(FAMILY, classes), own
    pipeline.loaded.engine.stop()


def _expected(pipeline: Pipeline, upstream: Upstream, images: list[Any]) -> list[int]:
    """Return transformers' answer to the conversation that its own template writes."""
    template = find_chat_template(Path(upstream.model.name_or_path))
    assert template is not None
    content = [{"type": "image"} for _ in images] + [{"type": "text", "text": QUESTION}]
    tokenizer = pipeline.preprocessor.codec
    text = _rendered(template, [{"role": "user", "content": content}])
    inputs = upstream.images(images) if images else {}
    features = pipeline.preprocessor.image_processor.rows_of(
        [(one.height, one.width) for one in images]
    )
    pieces = text.split("<IMG_CONTEXT>")
    framed = [f"<img>{'<IMG_CONTEXT>' * count}</img>" for count in features]
    entire = pieces[0] + "".join(a + b for a, b in zip(framed, pieces[1:], strict=True))
    ids = tokenizer.encode_prompt(entire)
    answer = upstream.answer(ids, **inputs)
    end = id_of("<|im_end|>", TOKENS)
    return answer[: answer.index(end)] if end in answer else answer


def _rendered(template: str, messages: list[dict[str, Any]]) -> str:
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415

    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    return made.from_string(template).render(messages=messages, add_generation_prompt=True)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_one_image(both: tuple[Pipeline, Upstream, Path], size: tuple[int, int]) -> None:
    """Tiles, their features and the language model."""
    pipeline, upstream, _ = both
    image = noise_image(*size, seed=1)
    pixels = np.asarray(image)[None, None]

    found = pipeline.query(QUESTION, IMAGE_BYTES=pixels)

    assert found == _expected(pipeline, upstream, [image])
    assert found


def test_two_images(both: tuple[Pipeline, Upstream, Path]) -> None:
    """Images of one shape in one request."""
    pipeline, upstream, _ = both
    images = [noise_image(90, 40, seed=seed) for seed in (2, 3)]
    pixels = np.stack([np.asarray(one) for one in images])[None]

    assert pipeline.query(QUESTION, IMAGE_BYTES=pixels) == _expected(pipeline, upstream, images)


def test_text_only(both: tuple[Pipeline, Upstream, Path]) -> None:
    """A question without an image."""
    pipeline, upstream, _ = both

    assert pipeline.query(QUESTION) == _expected(pipeline, upstream, [])


def test_layers_on_disk(both: tuple[Pipeline, Upstream, Path], tmp_path: Path) -> None:
    """A checkpoint larger than memory: renamed weights are read from its own files."""
    pipeline, _, _ = both
    pixels = np.asarray(noise_image(60, 60, seed=1))[None, None]
    request, sink = pipeline.request(QUESTION, IMAGE_BYTES=pixels), CollectingSink()
    start = engine_starter(load_model(pipeline.directory, streamed=tmp_path))
    limits = pipeline.directory.limits
    with start(max_seq_len=limits.max_seq_len, max_num_tokens=limits.max_num_tokens) as engine:
        engine.submit(request, sink)
        answer = sink.wait()

    assert answer == pipeline.query(QUESTION, IMAGE_BYTES=pixels)


def test_no_code_of_the_checkpoint_has_run(both: tuple[Pipeline, Upstream, Path]) -> None:
    """Neither in the checkpoint's folder nor in the engine's."""
    pipeline, _, own = both

    folders = (own, pipeline.directory.root)
    assert not [path for one in folders for path in one.rglob(f"{CODE}.ran")]
    assert not pipeline.directory.facts.custom_code


def test_engines_have_the_layouts_template(both: tuple[Pipeline, Upstream, Path]) -> None:
    """Its small files lie without config.json, which is with the weights."""
    pipeline, upstream, own = both
    written = find_chat_template(pipeline.directory.processor, pipeline.directory.tokenizer)

    assert written == find_chat_template(own)
    assert written != find_chat_template(Path(upstream.model.name_or_path))


def test_what_ends_an_answer(both: tuple[Pipeline, Upstream, Path]) -> None:
    """The end of a turn, although no file of the checkpoint says so."""
    pipeline, _, _ = both

    assert pipeline.loaded.end_ids == {END, id_of("<|im_end|>", TOKENS)}
