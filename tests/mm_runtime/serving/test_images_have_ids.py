"""Each image feature carries an id of its image, so that KV blocks are reusable."""

from collections.abc import Sequence

import numpy as np
import pytest
from PIL import Image

from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.preprocess.image_ids import (
    extra_ids,
    image_id,
    salted_text,
    sized_id,
    video_id,
)
from mm_runtime.serving.preprocess.preprocessing import Outputs, Preprocessor
from mm_runtime.serving.preprocess.processors.squares import SquareProcessor
from support.cases import cases
from support.tiny_llava import CHECKPOINT, FEATURES_PER_IMAGE, IMAGES, VOCABULARY, BuiltEngine


@pytest.fixture(scope="module")
def preprocessor(built_engine: BuiltEngine) -> Preprocessor:
    serving = ServingPlan.from_json(built_engine.serving.read_bytes())
    return Preprocessor.load(EngineDirectory.open(built_engine.directory), serving)


def _image(name: str) -> Image.Image:
    return Image.open(IMAGES / name).convert("RGB")


def _prepare(preprocessor: Preprocessor, text: str, *names: str, **more: object) -> Outputs:
    inputs: dict[str, object] = {
        "QUERY": np.array([[text.encode()]], dtype=np.object_),
        "REQUEST_OUTPUT_LEN": np.array([[8]], np.int32),
    }
    if names:
        inputs["IMAGE_BYTES"] = np.stack([np.asarray(_image(one)) for one in names])[np.newaxis]
    return preprocessor.prepare(inputs | more)  # type: ignore[arg-type]


def _marked(outputs: Outputs, text: int = 0) -> list[int]:
    ids, marks = outputs["INPUT_ID"][0], outputs["OUT_PROMPT_TABLE_EXTRA_IDS"][0]
    assert ids.shape == marks.shape
    assert set(marks[ids < VOCABULARY].tolist()) <= {text}
    marked: list[int] = marks[ids >= VOCABULARY].tolist()
    return marked


def test_the_image_decides(preprocessor: Preprocessor) -> None:
    turn = _marked(_prepare(preprocessor, "What is it?", "red-square.png"))
    later = _marked(_prepare(preprocessor, "And which colour is that?", "red-square.png"))
    other = _marked(_prepare(preprocessor, "What is it?", "big-green-triangle.png"))
    assert [image_id(_image("red-square.png"))] * FEATURES_PER_IMAGE == turn
    assert turn == later
    assert not set(turn) & set(other)


def test_each_of_several_images_has_its_own(preprocessor: Preprocessor) -> None:
    names = ("red-square.png", "big-green-triangle.png")
    both = _marked(_prepare(preprocessor, "Which?", *names))
    alone = [_marked(_prepare(preprocessor, "Which?", name)) for name in names]
    assert alone[0] + alone[1] == both


def test_the_clients_id_is_taken(preprocessor: Preprocessor) -> None:
    """`prompt_table_extra_id` of the request marks all of its features, as upstream does."""
    requested = np.array([[77]], np.uint64)
    outputs = _prepare(preprocessor, "What?", "red-square.png", PROMPT_TABLE_EXTRA_ID=requested)
    assert _marked(outputs) == [77] * FEATURES_PER_IMAGE


def test_preprocessed_pixels_have_an_id_too(preprocessor: Preprocessor) -> None:
    values = SquareProcessor.from_folder(CHECKPOINT).values_of([_image("red-square.png")])
    outputs = _prepare(preprocessor, "What?", IMAGE=values[np.newaxis].astype(np.float16))
    assert [image_id(values[0].astype(np.float16))] * FEATURES_PER_IMAGE == _marked(outputs)


def test_an_image_that_became_more_rows_has_another_id() -> None:
    ids = {sized_id(one, rows) for one in (1, 2) for rows in (729, 1500)}
    assert len(ids - {0}) == 4


def test_salted_requests_have_ids_of_their_own(preprocessor: Preprocessor) -> None:
    def marked(salt: str) -> set[int]:
        requested = np.array([[salt.encode()]], dtype=np.object_)
        outputs = _prepare(preprocessor, "What?", "red-square.png", CACHE_SALT=requested)
        return set(_marked(outputs, salted_text(salt)))

    ann, again, bob = marked("ann"), marked("ann"), marked("bob")
    plain = {image_id(_image("red-square.png"))}
    assert (ann, 3) == (again, len(ann | bob | plain))


def test_text_has_none(preprocessor: Preprocessor) -> None:
    assert "OUT_PROMPT_TABLE_EXTRA_IDS" not in _prepare(preprocessor, "Hello")


def test_ids_are_never_that_of_text() -> None:
    """Shape and order count; 0 means text and is never given."""
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    found = {
        image_id(Image.new("RGB", (4, 2))),
        image_id(Image.new("RGB", (2, 4))),
        video_id(frames),
        video_id(frames[::-1]),
    }
    assert len(found) == 4
    assert 0 not in found


@cases("rows", {"few": (1,), "many": (2, 1)})
def test_features_and_rows_must_agree(rows: Sequence[int]) -> None:
    with pytest.raises(ValueError, match="2 features in the prompt"):
        extra_ids([5, 100, 101], 100, [(1, count) for count in rows])
