"""The gateway's images are bytes up to the tower, and what it computes of them stays the same."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from mm_runtime.images.normalisation import Normalisation
from mm_runtime.serving.device import CPU
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.encode.disaggregated.client import OWN_IDENTITY, EncoderClient
from mm_runtime.serving.encode.disaggregated.responses import ExpectedFeatures
from mm_runtime.serving.encode.encoding import encode_requests
from mm_runtime.serving.encode.vision.cache import FeatureCache
from mm_runtime.serving.encode.vision.device_runner import NormalisedOn
from mm_runtime.serving.encode.vision.features import RequestEncoder
from mm_runtime.serving.encode.vision.load import load_encoder
from mm_runtime.serving.encode.vision.pixel_bytes import normalisation_of
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess import preprocessing
from mm_runtime.serving.preprocess.preprocessing import Preprocessor
from support.build_plans import serving_plan
from support.documents import FACTS, manifest
from support.scripted_encoder import scripted_encoder
from support.tiny_llava import IMAGE_SIDE, BuiltEngine

IDS = "OUT_PROMPT_TABLE_EXTRA_IDS"
TABLE = "OUT_PROMPT_EMBEDDING_TABLE"
CLIP = Normalisation(
    (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711), 1 / 255
)
SIZES = [
    pytest.param([(IMAGE_SIDE, IMAGE_SIDE)], id="the tower's size"),
    pytest.param([(100, 61)], id="another size"),
    pytest.param([(IMAGE_SIDE, IMAGE_SIDE)] * 2, id="two of the tower's size"),
    pytest.param([(33, 90), (33, 90)], id="two of another size"),
]


def noise(width: int, height: int, seed: int = 1) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def directory(built_engine: BuiltEngine) -> EngineDirectory:
    return EngineDirectory.open(built_engine.directory)


@pytest.fixture(scope="module")
def preprocessor(directory: EngineDirectory) -> Preprocessor:
    return Preprocessor.load(directory, serving_plan(directory.manifest.fingerprint))


@pytest.fixture(scope="module")
def encoder(directory: EngineDirectory) -> RequestEncoder:
    assert directory.vision is not None
    return load_encoder(directory, directory.vision)


def prepared(
    preprocessor: Preprocessor, images: list[NDArray[np.uint8]], requested: Collection[str]
) -> dict[str, NDArray[Any]]:
    return preprocessor.prepare(
        {
            "QUERY": np.array([[b"what is in the image ?"]], dtype=np.object_),
            "REQUEST_OUTPUT_LEN": np.array([[4]], dtype=np.int32),
            "IMAGE_BYTES": np.stack(images)[np.newaxis],
        },
        requested=requested,
    )


def inputs_of(outputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    names = {"PIXEL_BYTES": "pixel_bytes", "PIXEL_VALUES": "pixel_values"}
    return {name: outputs[one] for one, name in names.items() if one in outputs}


def table_of(encoded: Any) -> NDArray[Any]:
    assert isinstance(encoded, dict), encoded
    table: NDArray[Any] = encoded[TABLE]
    return table


@pytest.mark.parametrize("sizes", SIZES)
def test_bytes_are_the_values_before_they_are_normalised(
    preprocessor: Preprocessor, encoder: RequestEncoder, sizes: list[tuple[int, int]]
) -> None:
    images = [noise(*size, seed=at) for at, size in enumerate(sizes)]
    values = prepared(preprocessor, images, ())
    as_bytes = prepared(preprocessor, images, {"PIXEL_BYTES", IDS})
    normalisation = normalisation_of(preprocessor.engine)

    assert normalisation is not None
    assert as_bytes.keys() ^ values.keys() == {"PIXEL_BYTES", "PIXEL_VALUES"}
    found = as_bytes.pop("PIXEL_BYTES")
    assert found.dtype == np.uint8
    assert found.shape == (1, len(sizes), IMAGE_SIDE, IMAGE_SIDE, 3)
    wanted = values.pop("PIXEL_VALUES")
    assert np.array_equal(wanted[0], normalisation.of_images(found[0]))
    for name, one in as_bytes.items():
        assert np.array_equal(values[name], one), name
    one, other = (
        table_of(encode_requests(encoder, [request], np.float32)[0])
        for request in ({"pixel_values": wanted}, {"pixel_bytes": found})
    )
    assert np.array_equal(one, other)


def test_a_caller_gets_what_it_requests(preprocessor: Preprocessor) -> None:
    images = [noise(IMAGE_SIDE, IMAGE_SIDE)]
    both = prepared(preprocessor, images, {"PIXEL_BYTES", "PIXEL_VALUES"})

    assert {"PIXEL_BYTES", "PIXEL_VALUES"} <= both.keys()
    assert np.array_equal(
        both["PIXEL_VALUES"], prepared(preprocessor, images, {"PIXEL_VALUES"})["PIXEL_VALUES"]
    )


def test_images_have_ids_where_they_are_requested(
    preprocessor: Preprocessor, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = [noise(IMAGE_SIDE, IMAGE_SIDE)]
    wanted = prepared(preprocessor, images, {"PIXEL_BYTES", IDS})

    def fail(*_: object) -> int:
        raise AssertionError("an image was named")

    monkeypatch.setattr(preprocessing, "image_id", fail)
    found = prepared(preprocessor, images, {"PIXEL_BYTES"})

    assert wanted.keys() - found.keys() == {IDS}
    for name, one in found.items():
        assert np.array_equal(wanted[name], one), name


def test_bytes_and_values_share_a_batch(
    preprocessor: Preprocessor, encoder: RequestEncoder
) -> None:
    images = [[noise(IMAGE_SIDE, IMAGE_SIDE, seed)] for seed in range(3)]
    requested = ({"PIXEL_BYTES"}, set[str](), {"PIXEL_BYTES"})
    requests = [
        inputs_of(prepared(preprocessor, one, names))
        for one, names in zip(images, requested, strict=True)
    ]
    together = encode_requests(encoder, requests, np.float32)

    for one, alone in zip(together, requests, strict=True):
        wanted = table_of(encode_requests(encoder, [alone], np.float32)[0])
        np.testing.assert_allclose(table_of(one), wanted, atol=1e-5)


def test_a_known_image_is_not_normalised(
    directory: EngineDirectory, preprocessor: Preprocessor, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    of_images = Normalisation.of_images

    def counted(self: Normalisation, images: NDArray[np.uint8]) -> NDArray[Any]:
        made.append(len(images))
        return of_images(self, images)

    monkeypatch.setattr(Normalisation, "of_images", counted)
    assert directory.vision is not None
    cache = FeatureCache(1 << 20)
    cached = load_encoder(directory, directory.vision, cache)
    request = inputs_of(prepared(preprocessor, [noise(50, 50)], {"PIXEL_BYTES"}))
    tables = []
    for _ in range(2):
        tables.append(table_of(encode_requests(cached, [request], np.float32)[0]))
        cache.settle()

    first, second = tables
    assert np.array_equal(first, second)
    assert (made, cache.counts.hits) == ([1], 1)


def test_other_shapes_are_refused(encoder: RequestEncoder) -> None:
    with pytest.raises(RequestError, match=r"\[1, 28, 28, 3\].*\[images, 56, 56, 3\]"):
        encoder.read({"pixel_bytes": np.zeros((1, 1, 28, 28, 3), np.uint8)})


@pytest.mark.parametrize("size", [(56, 56), (7, 61)], ids=["even", "odd"])
def test_a_device_makes_the_bits_of_the_processor(size: tuple[int, int]) -> None:
    """From the same table, in the order that a tower reads; here the device is the processor."""
    images = np.stack([noise(*size, seed=seed) for seed in range(2)])
    wanted = CLIP.of_images(images)
    stepwise = np.stack(
        [
            (np.asarray(Image.fromarray(one), np.float32) * np.float32(CLIP.rescale) - mean) / std
            for one in images
            for mean, std in [(np.array(CLIP.mean, np.float32), np.array(CLIP.std, np.float32))]
        ]
    )
    found = NormalisedOn(CPU, CLIP)(torch.from_numpy(images))

    assert np.array_equal(stepwise.transpose(0, 3, 1, 2).astype(np.float16), wanted)
    assert found.is_contiguous()
    assert np.array_equal(wanted, found.numpy())


def test_encoders_in_other_pods_get_bytes() -> None:
    pixels = noise(28, 28)[np.newaxis, np.newaxis]
    with answering_encoder() as (client, servicer):
        client.encode({"pixel_bytes": pixels})
    assert (servicer.types["pixel_bytes"], servicer.requested) == ("UINT8", 1)
    assert servicer.contents["pixel_bytes"] == pixels.tobytes()
    assert "pixel_values" not in servicer.types


@contextmanager
def answering_encoder() -> Iterator[tuple[EncoderClient, Any]]:
    engine = manifest()
    assert engine.plan.engine.vision is not None
    rows, hidden = engine.plan.engine.vision.features_per_image, FACTS.text.hidden_size
    answer: dict[str, NDArray[Any]] = {
        TABLE: np.ones((1, rows, hidden), np.float16),
        "OUT_PROMPT_VOCAB_SIZE": np.array([[rows]], np.int32),
        OWN_IDENTITY: np.array([[b"a" * 64]], dtype=np.object_),
    }
    with scripted_encoder(lambda: answer) as (address, servicer):
        client = EncoderClient(
            lambda: [address],
            identity="a" * 64,
            expected_features=ExpectedFeatures.of(FACTS, engine.plan.engine.vision, np.float16),
            timeout_seconds=60,
        )
        yield client, servicer
