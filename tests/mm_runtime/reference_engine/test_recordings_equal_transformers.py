"""Families that read recordings: inspected, built, and answered as transformers' class does.

transformers gets the same samples through the checkpoint's own processor and chat template.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from numpy.typing import NDArray
from PIL import Image

from mm_api.families import FAMILIES
from mm_runtime.gateway.prompts.loading import load_chat_prompt
from mm_runtime.gateway.prompts.templates import Media, Turn
from mm_runtime.serving.errors import RequestError
from support.families.expected import ANSWER, noise_image
from support.families.pipeline import Pipeline, build
from support.families.recordings import RATE, WRITERS, noise, write
from support.families.words import END

QUESTION = "what is it ?"
Samples = NDArray[np.float32]


class Upstream:
    """A checkpoint in transformers, with its processor."""

    def __init__(self, family: str, folder: Path) -> None:
        """Load both."""
        kind: Any = getattr(transformers, FAMILIES[family].transformers_class)
        self.model: Any = kind.from_pretrained(folder).eval()
        self.processor: Any = transformers.AutoProcessor.from_pretrained(folder)

    def prompt(self, recordings: int, images: int = 0) -> str:
        """Return the prompt of a question about recordings, and images before them."""
        parts: list[dict[str, Any]] = [{"type": "image"}] * images + [
            {"type": "audio"}
        ] * recordings
        messages = [{"role": "user", "content": [*parts, {"type": "text", "text": QUESTION}]}]
        text: str = self.processor.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=False
        )
        return text

    def tensors(self, recordings: list[Samples], images: Sequence[Image.Image] = ()) -> Any:
        """Return what the class is given."""
        text = self.prompt(len(recordings), len(images))
        if not recordings and not images:
            return self.processor.tokenizer(text, return_tensors="pt")
        given: dict[str, Any] = {"images": [*images]} if images else {}
        if recordings:
            given |= {"audio": recordings, "sampling_rate": RATE}
        return self.processor(text=text, return_tensors="pt", **given)

    def answer(self, recordings: list[Samples], images: Sequence[Image.Image] = ()) -> list[int]:
        """Return the tokens of the answer about recordings and images."""
        given = self.tensors(recordings, images)
        with torch.no_grad():
            found = self.model.generate(**given, max_new_tokens=ANSWER, do_sample=False)
        answer: list[int] = found[0, given["input_ids"].shape[1] :].tolist()
        return answer[: answer.index(END)] if END in answer else answer


@pytest.fixture(scope="module", params=sorted(WRITERS))
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Pipeline, Upstream]]:
    """The engine of a family, built from a small random checkpoint, and the checkpoint itself."""
    folder = tmp_path_factory.mktemp("family")
    checkpoint = write(request.param, folder / "checkpoint")
    pipeline = Pipeline.load(build(checkpoint, folder / "store"))
    assert pipeline.directory.facts.family == request.param
    yield pipeline, Upstream(request.param, checkpoint)
    pipeline.loaded.engine.stop()


def _answered(pipeline: Pipeline, recordings: list[Samples]) -> list[int]:
    """Return the answer to a conversation, as the gateway writes it."""
    return pipeline.query(_prompt(pipeline, len(recordings)), **_tensors(recordings))


def _prompt(pipeline: Pipeline, recordings: int, images: int = 0) -> str:
    chat = load_chat_prompt(pipeline.directory, pipeline.preprocessor.codec)
    turn = Turn("user", (*[Media.IMAGE] * images, *[Media.AUDIO] * recordings, QUESTION))
    return chat.template.render([turn])


def _tensors(recordings: list[Samples]) -> dict[str, Any]:
    if not recordings:
        return {}
    lengths = np.array([[len(one) for one in recordings]], dtype=np.int32)
    padded = np.zeros((1, len(recordings), lengths.max()), dtype=np.float32)
    for row, one in zip(padded[0], recordings, strict=True):
        row[: len(one)] = one
    return {"audio_samples_input": padded, "audio_lengths_input": lengths}


@pytest.mark.parametrize("count", [0, 1, 2])
def test_prompts(both: tuple[Pipeline, Upstream], count: int) -> None:
    """Conversations are written as the checkpoint's processor does."""
    pipeline, upstream = both

    assert upstream.prompt(count) == _prompt(pipeline, count)


@pytest.mark.parametrize("seconds", [961 / RATE, 1.0, 7.3])
def test_one_recording(both: tuple[Pipeline, Upstream], seconds: float) -> None:
    """Token for token, whatever its length."""
    pipeline, upstream = both
    recording = noise(seconds, seed=1)

    assert upstream.answer([recording]) == _answered(pipeline, [recording])


def test_two_recordings(both: tuple[Pipeline, Upstream]) -> None:
    """Of different lengths in one request."""
    pipeline, upstream = both
    recordings = [noise(2.0, seed=2), noise(0.7, seed=3)]

    assert upstream.answer(recordings) == _answered(pipeline, recordings)


def test_text_only(both: tuple[Pipeline, Upstream]) -> None:
    """A question without a recording."""
    pipeline, upstream = both

    assert upstream.answer([]) == _answered(pipeline, [])


def test_recordings_matter(both: tuple[Pipeline, Upstream]) -> None:
    """Another recording, another answer: what is compared above depends on them."""
    pipeline, _ = both
    answers = {tuple(_answered(pipeline, [noise(1.0, seed=seed)])) for seed in range(6)}

    assert len(answers) > 1


@pytest.mark.parametrize("both", [one for one in WRITERS if FAMILIES[one].sees], indirect=True)
@pytest.mark.parametrize("recordings", [0, 1])
@pytest.mark.parametrize("size", [(100, 61), (37, 150), (20, 20)], ids=str)
def test_images_beside_them(
    both: tuple[Pipeline, Upstream], size: tuple[int, int], recordings: int
) -> None:
    """Where the family reads both: token for token, its rows as the processor counts them."""
    pipeline, upstream = both
    family, vision = FAMILIES[pipeline.directory.facts.family], pipeline.directory.facts.vision
    assert family.rows_of_image is not None
    assert vision is not None
    image, samples = noise_image(*size, seed=1), [noise(0.8, seed=5)] * recordings
    tensors = _tensors(samples) | {"IMAGE_BYTES": np.asarray(image)[None, None]}

    found = pipeline.query(_prompt(pipeline, recordings, 1), **tensors)

    assert upstream.answer(samples, [image]) == found
    given = upstream.tensors(samples, [image])["input_ids"]
    assert int((given == upstream.processor.image_token_id).sum()) == family.rows_of_image(
        vision, image.height, image.width
    )


@pytest.mark.parametrize("samples", [961, 1_280, 1_281, 16_000, 16_001, 119_999])
def test_features_are_counted(both: tuple[Pipeline, Upstream], samples: int) -> None:
    """The gateway's count of a recording's tokens is the processor's own."""
    pipeline, upstream = both
    count = FAMILIES[pipeline.directory.facts.family].audio_features
    assert count is not None
    given = upstream.tensors([noise(samples / RATE, seed=4)])
    mark = upstream.processor.audio_token_id

    assert count(samples) == int((given["input_ids"] == mark).sum())


@pytest.mark.parametrize(
    ("recordings", "marks", "words"),
    [
        pytest.param([noise(31, seed=1)], 1, "a recording has 496000 samples", id="too-long"),
        pytest.param([noise(0.01, seed=1)], 1, "has 160 samples", id="too-short"),
        pytest.param([noise(0.5, seed=1)], 2, r"2 .* placeholder\(s\) and .* 1 rec", id="unmarked"),
        pytest.param([noise(0.1, seed=1)] * 9, 9, "9 recordings, at most 8", id="too-many"),
        pytest.param([noise(0.1, seed=1) * np.nan], 1, "NaN", id="no-audio"),
    ],
)
def test_bad_recordings(
    both: tuple[Pipeline, Upstream], recordings: list[Samples], marks: int, words: str
) -> None:
    """Clients of Triton get the reason."""
    pipeline, _ = both

    with pytest.raises(RequestError, match=words):
        pipeline.query(_prompt(pipeline, marks), **_tensors(recordings))
