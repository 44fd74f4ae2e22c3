"""Families that read recordings: inspected, built, and answered as transformers' class does.

transformers gets the same samples through the checkpoint's own processor and chat template.
"""

from collections.abc import Iterator

import numpy as np
import pytest

from mm_api.families import FAMILIES
from mm_runtime.serving.errors import RequestError
from support.cases import cases
from support.families.expected import noise_image
from support.families.pipeline import Pipeline, build
from support.families.recordings import RATE, WRITERS, noise, write
from support.families.recordings_upstream import Samples, Upstream, answered, prompt_of, tensors_of


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


@pytest.mark.parametrize("count", [0, 1, 2])
def test_prompts(both: tuple[Pipeline, Upstream], count: int) -> None:
    """Conversations are written as the checkpoint's processor does."""
    pipeline, upstream = both

    assert upstream.prompt(count) == prompt_of(pipeline, count)


@pytest.mark.parametrize("seconds", [961 / RATE, 1.0, 7.3])
def test_one_recording(both: tuple[Pipeline, Upstream], seconds: float) -> None:
    """Token for token, whatever its length."""
    pipeline, upstream = both
    recording = noise(seconds, seed=1)

    assert upstream.answer([recording]) == answered(pipeline, [recording])


def test_two_recordings(both: tuple[Pipeline, Upstream]) -> None:
    """Of different lengths in one request."""
    pipeline, upstream = both
    recordings = [noise(2.0, seed=2), noise(0.7, seed=3)]

    assert upstream.answer(recordings) == answered(pipeline, recordings)


def test_text_only(both: tuple[Pipeline, Upstream]) -> None:
    """A question without a recording."""
    pipeline, upstream = both

    assert upstream.answer([]) == answered(pipeline, [])


def test_recordings_matter(both: tuple[Pipeline, Upstream]) -> None:
    """Another recording, another answer: what is compared above depends on them."""
    pipeline, _ = both
    answers = {tuple(answered(pipeline, [noise(1.0, seed=seed)])) for seed in range(6)}

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
    assert family.layout.rows_of_image is not None
    assert vision is not None
    image, samples = noise_image(*size, seed=1), [noise(0.8, seed=5)] * recordings
    tensors = tensors_of(samples) | {"IMAGE_BYTES": np.asarray(image)[None, None]}

    found = pipeline.query(prompt_of(pipeline, recordings, 1), **tensors)

    assert upstream.answer(samples, [image]) == found
    given = upstream.tensors(samples, [image])["input_ids"]
    assert int((given == upstream.processor.image_token_id).sum()) == family.layout.rows_of_image(
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


@cases(
    "recordings marks words",
    {
        "too-long": ([noise(41, seed=1)], 1, "a recording has 656000 samples"),
        "too-short": ([noise(0.01, seed=1)], 1, "has 160 samples"),
        "unmarked": ([noise(0.5, seed=1)], 2, r"2 .* placeholder\(s\) and .* 1 rec"),
        "too-many": ([noise(0.1, seed=1)] * 9, 9, "9 recordings, at most 8"),
        "no-audio": ([noise(0.1, seed=1) * np.nan], 1, "NaN"),
    },
)
def test_bad_recordings(
    both: tuple[Pipeline, Upstream], recordings: list[Samples], marks: int, words: str
) -> None:
    """Clients of Triton get the reason."""
    pipeline, _ = both

    with pytest.raises(RequestError, match=words):
        pipeline.query(prompt_of(pipeline, marks), **tensors_of(recordings))
