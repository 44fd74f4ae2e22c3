"""The committed Qwen2.5-VL answers the committed samples, images and a video, word for word."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

from mm_devcluster.demo.questions import IMAGES, VIDEO, choose_questions, content_of, read_questions
from mm_devcluster.demo.settings import FAMILIES
from mm_runtime.engine_build.commands.towers import load_tower
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from support.families.pipeline import Pipeline, build

FAMILY = FAMILIES["qwen2.5-vl-tiny"]
QUESTIONS = read_questions(FAMILY.samples)
FRAMES = 4
"""Of two seconds, at the two frames a second that the demo requests."""


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    loaded = Pipeline.load(build(FAMILY.checkpoint, tmp_path_factory.mktemp("qwen")))
    yield loaded
    loaded.loaded.engine.stop()


def tensors(path: Path) -> dict[str, Any]:
    if path.suffix != VIDEO:
        return {"IMAGE_BYTES": np.array(Image.open(path).convert("RGB"))[None, None]}
    with av.open(str(path)) as file:
        frames = [frame.to_ndarray(format="rgb24") for frame in file.decode(video=0)]
    chosen = [frames[at] for at in np.linspace(0, len(frames) - 1, FRAMES).round().astype(int)]
    seconds = np.array([[2.0]], dtype=np.float32)
    return {"VIDEO_BYTES": np.stack(chosen)[None], "VIDEO_SECONDS": seconds}


@pytest.mark.parametrize(
    "question", [pytest.param(one, id=f"{one.image.stem}-{one.text}") for one in QUESTIONS]
)
def test_sample(question: Any, pipeline: Pipeline) -> None:
    """Preprocessing, the exported tower and transformers' language model, as pods have them."""
    tokens = pipeline.query(question.text, **tensors(question.image))
    kept = [one for one in tokens if one not in pipeline.loaded.end_ids]
    assert question.expected == pipeline.preprocessor.codec.decode(kept).strip()


def test_the_tower_takes_its_own_samples() -> None:
    """Images of this model have 16 patches at the most; the exporter is shown some with more."""
    facts = inspect(FAMILY.checkpoint, InspectOptions())
    tower = load_tower(FAMILY.checkpoint, facts, trust_remote_code=False)
    (largest,) = {one.largest for one in tower.inputs}
    assert facts.vision is not None
    assert facts.vision.max_pixels == 16 * facts.vision.patch_size**2
    assert largest == max(one["patch_positions"].shape[1] for one in tower.samples) > 16


def test_the_demo_shows_a_video() -> None:
    """Of the questions that it sends one is about a video, with its rate of frames."""
    chosen = choose_questions(QUESTIONS, IMAGES)
    kinds = [content_of(one)[0]["type"] for one in chosen]
    assert kinds == ["image_url", "image_url", "video_url"]
    assert content_of(chosen[-1])[0]["video_url"]["fps"] == 2


def test_the_checkpoint_is_small() -> None:
    sizes = {path.name: path.stat().st_size for path in FAMILY.checkpoint.iterdir()}
    assert sum(sizes.values()) < 2_500_000, json.dumps(sizes)
