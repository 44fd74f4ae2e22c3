"""Images of several requests share runs of the vision engine, and each gets its own rows."""

import numpy as np
import pytest
from numpy.typing import NDArray

from mm_runtime.serving.encode.encoding import encode_requests
from mm_runtime.serving.encode.vision.encoder import VisionEncoder
from mm_runtime.serving.encode.vision.session import OnnxRunner, VisionSession
from mm_runtime.serving.errors import RequestError
from support.tiny_llava import FEATURES_PER_IMAGE, IMAGE_SIDE, BuiltEngine

HIDDEN = 128


@pytest.fixture(scope="module")
def encoder(built_engine: BuiltEngine) -> VisionEncoder:
    model = built_engine.directory / "vision" / "model.onnx"
    session = VisionSession(OnnxRunner(model), max_batch_size=3)
    return VisionEncoder(session, image_size=IMAGE_SIDE)


def _images(count: int, seed: int) -> NDArray[np.float16]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(1, count, 3, IMAGE_SIDE, IMAGE_SIDE)).astype(np.float16)


def test_tables_are_the_same_as_alone(encoder: VisionEncoder) -> None:
    requests = [{"pixel_values": _images(count, seed=count)} for count in (1, 2, 4)]
    together = encode_requests(encoder, requests, np.float16)
    alone = [encode_requests(encoder, [request], np.float16)[0] for request in requests]
    for one, other, count in zip(together, alone, (1, 2, 4), strict=True):
        assert isinstance(one, dict)
        assert isinstance(other, dict)
        table = one["OUT_PROMPT_EMBEDDING_TABLE"]
        assert (1, count * FEATURES_PER_IMAGE, HIDDEN) == table.shape
        assert [[count * FEATURES_PER_IMAGE]] == one["OUT_PROMPT_VOCAB_SIZE"].tolist()
        np.testing.assert_allclose(table, other["OUT_PROMPT_EMBEDDING_TABLE"], atol=2e-3)


def test_preprocessed_and_own_images_are_equal(encoder: VisionEncoder) -> None:
    """`IMAGE` from the client and `pixel_values` from preprocessing are treated alike."""
    images = _images(1, seed=5)
    one, other = encode_requests(encoder, [{"IMAGE": images}, {"pixel_values": images}], np.float32)
    assert isinstance(one, dict)
    assert isinstance(other, dict)
    np.testing.assert_allclose(
        one["OUT_PROMPT_EMBEDDING_TABLE"], other["OUT_PROMPT_EMBEDDING_TABLE"], atol=1e-5
    )


def test_text_only_request_has_no_table(encoder: VisionEncoder) -> None:
    assert encode_requests(encoder, [{"max_tokens": np.ones((1, 1), np.int32)}], np.float16) == [{}]


def test_wrong_image_fails_alone(encoder: VisionEncoder) -> None:
    wrong = np.zeros((1, 1, 3, 28, 28), dtype=np.float16)
    good = {"pixel_values": _images(1, seed=1)}
    results = encode_requests(encoder, [good, {"IMAGE": wrong}, good], np.float16)
    assert [dict, RequestError, dict] == [type(result) for result in results]
    assert "expected [images, 3, 56, 56]" in str(results[1])
