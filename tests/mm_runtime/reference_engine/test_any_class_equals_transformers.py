"""Classes without a record: inspected, built, and answered as their own `generate` does.

transformers gets the same images through the checkpoint's own processor and chat template.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.model import Part
from mm_runtime.reference_engine.own_class import OwnClassModel
from mm_runtime.serving.errors import RequestError
from support.collecting_sink import answers_of, submitted
from support.families.expected import ANSWER, noise_image
from support.families.own_classes import WRITERS, write
from support.families.pipeline import Pipeline, build
from support.families.words import END
from support.images import data_url, encode
from support.representatives import others_are_slow

QUESTION = "what is in the image ?"


class Upstream:
    """A checkpoint in transformers, with its processor."""

    def __init__(self, folder: Path) -> None:
        import transformers  # noqa: PLC0415 (seconds)

        kind = transformers.AutoModelForImageTextToText
        self.model: Any = kind.from_pretrained(folder).eval()
        self.processor: Any = transformers.AutoProcessor.from_pretrained(folder)

    def answer(self, images: list[Any]) -> list[int]:
        import torch  # noqa: PLC0415 (seconds)

        if self.processor.chat_template:
            parts: list[dict[str, Any]] = [{"type": "image", "image": one} for one in images]
            parts.append({"type": "text", "text": QUESTION})
            given = self.processor.apply_chat_template(
                [{"role": "user", "content": parts}],
                add_generation_prompt=True,
                tokenize=True,
                return_dict=True,
                return_tensors="pt",
            )
        else:
            text = "<image>" * len(images) + QUESTION
            given = self.processor(text=text, images=images or None, return_tensors="pt")
        # Llama 4's processor makes pixels in bfloat16, whatever the weights are.
        given = given.to(dtype=self.model.dtype)
        with torch.no_grad():
            found = self.model.generate(**given, max_new_tokens=ANSWER, do_sample=False)
        answer: list[int] = found[0, given["input_ids"].shape[1] :].tolist()
        return answer[: answer.index(END)] if END in answer else answer


ENTIRELY = (
    *("paligemma", "aya_vision", "idefics2", "vipllava", "ovis2"),
    *("llama4", "qwen3_vl_moe", "glm4v", "lfm2_vl"),
)
"""Each has something that no other one has; the others are in `test_answers`."""

ALWAYS = ("aria", "deepseek_vl", "molmo2", "qwen3_5")
"""Of `test_answers`, in every run: experts, two towers, states for a cache."""

SIZES = [(100, 61), (37, 150)]


@pytest.fixture(
    scope="module", params=others_are_slow(sorted(ENTIRELY), "aya_vision", "glm4v", "llama4")
)
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Pipeline, Upstream]]:
    folder = tmp_path_factory.mktemp("class")
    checkpoint = write(request.param, folder / "checkpoint")
    pipeline = Pipeline.load(build(checkpoint, folder / "store"))
    yield pipeline, Upstream(checkpoint)
    pipeline.loaded.engine.stop()


def _pixels(image: Any) -> np.ndarray:
    return np.asarray(image)[None, None]


def test_it_is_the_generic_family(both: tuple[Pipeline, Upstream]) -> None:
    pipeline, upstream = both
    facts = pipeline.directory.facts

    assert facts.family == "generic"
    assert facts.architecture == type(upstream.model).__name__
    assert pipeline.directory.vision is None


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_one_image(both: tuple[Pipeline, Upstream], size: tuple[int, int]) -> None:
    pipeline, upstream = both
    image = noise_image(*size, seed=1)

    assert upstream.answer([image]) == pipeline.query(QUESTION, IMAGE_BYTES=_pixels(image))


def test_text_only(both: tuple[Pipeline, Upstream]) -> None:
    pipeline, upstream = both
    answer = pipeline.query(QUESTION)

    assert answer
    if upstream.processor.chat_template:  # PaliGemma's wants an image
        assert upstream.answer([]) == answer


def test_two_images(both: tuple[Pipeline, Upstream]) -> None:
    pipeline, upstream = both
    images = [noise_image(90, 40, seed=2), noise_image(50, 70, seed=3)]
    urls = np.array([[data_url(encode(one)).encode() for one in images]], dtype=np.object_)

    found = pipeline.query(QUESTION, IMAGE_URL=urls)

    assert upstream.answer(images) == found


def test_images_matter(both: tuple[Pipeline, Upstream]) -> None:
    pipeline, _ = both
    answers = {
        tuple(pipeline.query(QUESTION, IMAGE_BYTES=_pixels(noise_image(80, 50, seed=seed))))
        for seed in range(6)
    }
    assert len(answers) > 1


def test_requests_together(both: tuple[Pipeline, Upstream]) -> None:
    pipeline, upstream = both
    images = [noise_image(*size, seed=4) for size in SIZES]
    requests = [pipeline.request(QUESTION, IMAGE_BYTES=_pixels(one)) for one in images]
    sinks = submitted(pipeline.loaded.engine, requests)

    assert [upstream.answer([one]) for one in images] == [sink.wait() for sink in sinks]


def test_in_sixteen_bits(both: tuple[Pipeline, Upstream]) -> None:
    """Pixels get the type of the weights, as transformers' guides cast them."""
    pipeline, upstream = both
    checkpoint = Checkpoint(
        folder=pipeline.directory.llm, family="generic", dtype="bfloat16", slots=1, max_length=480
    )
    model = OwnClassModel(checkpoint, pipeline.directory.processor)
    request = pipeline.request(QUESTION, IMAGE_BYTES=_pixels(noise_image(60, 60, seed=5)))
    prompt = model.begin(0, request)
    passed = model.run([], [], Part(0, prompt))

    halved = {
        name: one.bfloat16() if one.is_floating_point() else one
        for name, one in request.tensors.items()
    }
    with torch.inference_mode():
        half = type(upstream.model).from_pretrained(checkpoint.folder, dtype=torch.bfloat16)
        wanted = half(input_ids=prompt[None], **halved).logits[0, -1]
    assert torch.equal(wanted, passed.read[-1])


def test_images_that_were_cut_before(both: tuple[Pipeline, Upstream]) -> None:
    """A tensor that another processor has prepared is refused: the class's own does it."""
    pipeline, _ = both

    with pytest.raises(RequestError, match="own processor prepares images"):
        pipeline.query(QUESTION, IMAGE=np.zeros((1, 1, 3, 28, 28), np.float16))


@pytest.mark.parametrize("kind", others_are_slow(sorted({*WRITERS} - {*ENTIRELY}), *ALWAYS))
def test_answers(kind: str, tmp_path: Path) -> None:
    checkpoint = write(kind, tmp_path / "checkpoint")
    pipeline, upstream = Pipeline.load(build(checkpoint, tmp_path / "store")), Upstream(checkpoint)
    images = [noise_image(*size, seed=seed) for seed, size in enumerate([*SIZES, (90, 40)], 1)]
    urls = np.array([[data_url(encode(one)).encode() for one in images[1:]]], dtype=np.object_)
    try:
        requests = [pipeline.request(QUESTION, IMAGE_BYTES=_pixels(one)) for one in images]
        requests.append(pipeline.request(QUESTION, IMAGE_URL=urls))
        sent = [*([one] for one in images), images[1:]]
        if upstream.processor.chat_template:
            requests.append(pipeline.request(QUESTION))
            sent.append([])
        found = answers_of(pipeline.loaded.engine, requests)
    finally:
        pipeline.loaded.engine.stop()

    assert [upstream.answer(one) for one in sent] == found
    assert len({*map(tuple, found[: len(images)])}) > 1
