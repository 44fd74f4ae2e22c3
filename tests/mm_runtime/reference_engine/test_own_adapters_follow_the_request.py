"""Phi-4-multimodal: each request is answered with the adapter for what it holds.

transformers gets the adapters as its page of the model says: `load_adapter`, then `set_adapter`.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import transformers
from PIL import Image

from mm_api.families.phi4_multimodal import rows_of_image
from support.collecting_sink import CollectingSink
from support.families.expected import noise_image
from support.families.pipeline import Pipeline, build
from support.families.recordings import PHI4_TRAINED, noise, write
from support.families.recordings_upstream import Upstream, prompt_of, tensors_of
from support.model_configs import facts_of

FAMILY = "phi4-multimodal"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Pipeline, Upstream]]:
    """The engine, built from a small random checkpoint, and the checkpoint itself."""
    folder = tmp_path_factory.mktemp("family")
    checkpoint = write(FAMILY, folder / "checkpoint")
    pipeline = Pipeline.load(build(checkpoint, folder / "store"))
    yield pipeline, Upstream(FAMILY, checkpoint)
    pipeline.loaded.engine.stop()


def test_the_adapter_decides_the_answer(both: tuple[Pipeline, Upstream]) -> None:
    """Of one image there are three answers, so what is compared here depends on it."""
    _, upstream = both
    image = noise_image(100, 61, seed=1)
    given, answers = upstream.tensors([], [image]), set()
    for adapter in ("vision-lora", "speech-lora", None):
        upstream.use(adapter)
        answers.add(tuple(upstream.generated(given)))

    assert len(answers) == 3


def test_requests_at_one_time(both: tuple[Pipeline, Upstream]) -> None:
    """Of every kind, decoded beside each other: none is answered with another one's adapter."""
    pipeline, upstream = both
    image, recording = noise_image(100, 61, seed=1), noise(0.9, seed=2)
    kinds = [(0, 1), (1, 0), (0, 0), (1, 1)]
    sinks = []
    for images, recordings in kinds:
        tensors: dict[str, Any] = tensors_of([recording] * recordings)
        if images:
            tensors["IMAGE_BYTES"] = np.asarray(image)[None, None]
        sink = CollectingSink()
        prompt = prompt_of(pipeline, recordings, images)
        pipeline.loaded.engine.submit(pipeline.request(prompt, **tensors), sink)
        sinks.append(sink)

    found = [sink.wait() for sink in sinks]

    assert found == [upstream.answer([recording] * r, [image] * i) for i, r in kinds]


@pytest.mark.parametrize("images", [0, 1])
def test_answers_that_grow_past_short_sequences(
    both: tuple[Pipeline, Upstream], images: int
) -> None:
    """The class gives its cache up there: all tokens are read again, and images with them.

    `generate` with a cache reads the last token alone, so the expected answer is made without one.
    """
    pipeline, upstream = both
    image = [noise_image(100, 61, seed=1)] * images
    tensors = {"IMAGE_BYTES": np.asarray(image[0])[None, None]} if image else {}
    marks = "<|image|>" * images
    read = 712 - 7 if images else 0
    words = " ".join(["what is it ?"] * ((PHI4_TRAINED - 8 - read) // 4))
    prompt = f"<|user|>{marks}{words}<|end|><|assistant|>"
    given = (
        upstream.processor(text=[prompt], images=image, return_tensors="pt")
        if image
        else upstream.processor.tokenizer(prompt, return_tensors="pt")
    )
    assert PHI4_TRAINED - 12 < given["input_ids"].shape[1] < PHI4_TRAINED
    upstream.use("vision-lora" if images else None)

    assert pipeline.query(prompt, **tensors) == upstream.generated(given, use_cache=False)


@pytest.mark.parametrize(
    ("width", "height"),
    [
        *((1, 1), (447, 449), (448, 448), (1000, 700), (640, 480), (3000, 500), (2688, 2688)),
        *((4000, 3000), (5000, 700), (500, 9000), (2689, 2688), (3584, 2240)),
    ],
    ids=str,
)
def test_rows_of_images(width: int, height: int) -> None:
    """As many as the processor counts at the sizes of the published model; within the plan's."""
    vision = facts_of(FAMILY).vision
    assert vision is not None
    processor: Any = transformers.Phi4MultimodalImageProcessor()
    image = Image.new("RGB", (width, height))

    counted = rows_of_image(vision, height, width)

    assert [counted] == [*processor(image, return_tensors="pt")["num_img_tokens"]]
    assert counted <= vision.features_per_image
