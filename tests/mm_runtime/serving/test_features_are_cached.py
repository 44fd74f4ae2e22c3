"""An image seen before is not encoded again, whatever request it comes with, nor mixed up."""

import base64
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from prometheus_client.parser import text_string_to_metric_families

from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.serving.encode.encoding import encode_requests
from mm_runtime.serving.encode.vision.cache import (
    ENTRY_BYTES,
    FeatureCache,
    Inputs,
    digest,
)
from mm_runtime.serving.encode.vision.encoder import VisionEncoder
from mm_runtime.serving.encode.vision.session import OnnxRunner, VisionSession
from support.ensemble import Ensemble
from support.eventually import eventually
from support.served import Served, start_serving
from support.tiny_llava import IMAGE_SIDE, IMAGES, BuiltEngine

ROWS, HIDDEN = 2, 4
PAGE_SECONDS = 60
FEATURE_BYTES = ROWS * HIDDEN * 4


class Encoder:
    """Features that report which image they are of; counts what it encodes."""

    def __init__(self) -> None:
        self.encoded: list[float] = []

    def __call__(self, inputs: Inputs) -> NDArray[np.float32]:
        values = inputs["pixel_values"].reshape(len(inputs["pixel_values"]), -1)[:, 0]
        self.encoded += values.tolist()
        return np.stack([np.full((ROWS, HIDDEN), value, np.float32) for value in values])


class TensorEncoder(Encoder):
    """The same as half-precision tensors of torch, as an encoder on a GPU gives them."""

    def __call__(self, inputs: Inputs) -> Any:
        return torch.from_numpy(super().__call__(inputs)).to(torch.bfloat16)


def through(cache: FeatureCache, inputs: Inputs, encoder: Encoder, salt: bytes = b"") -> Any:
    found = cache.through(inputs, encoder, salt)
    cache.settle()
    return found


def _batch(*images: float) -> dict[str, NDArray[np.float32]]:
    return {"pixel_values": np.stack([np.full((3, 2, 2), one, np.float32) for one in images])}


def test_only_unknown_images_are_encoded() -> None:
    cache, encoder = FeatureCache(1 << 20), Encoder()
    first = through(cache, _batch(1, 2, 1), encoder)
    second = through(cache, _batch(3, 2, 1), encoder)
    assert encoder.encoded == [1, 2, 3]
    assert first[:, 0, 0].tolist() == [1, 2, 1]
    assert second[:, 0, 0].tolist() == [3, 2, 1]
    assert (cache.counts.misses, cache.counts.hits, cache.counts.shared) == (3, 2, 1)


def test_tensors_stay_tensors() -> None:
    cache, encoder = FeatureCache(1 << 20), TensorEncoder()
    first = through(cache, _batch(1, 2), encoder)
    known = through(cache, _batch(2, 1), encoder)
    mixed = through(cache, _batch(3, 1), encoder)
    for found, images in ((first, [1, 2]), (known, [2, 1]), (mixed, [3, 1])):
        assert isinstance(found, torch.Tensor)
        assert found.dtype == torch.bfloat16
        assert found[:, 0, 0].tolist() == images
    assert encoder.encoded == [1, 2, 3]
    assert cache.used_bytes == 3 * (FEATURE_BYTES // 2 + ENTRY_BYTES)


def test_what_is_kept_shares_nothing_with_what_was_returned() -> None:
    """A table is changed after it was handed over: the next one is right all the same."""
    cache, encoder = FeatureCache(1 << 20), TensorEncoder()
    for _ in range(2):
        found = through(cache, _batch(7), encoder)
        assert found[0, 0, 0].item() == 7
        found.zero_()


def test_the_longest_unused_goes_first() -> None:
    cache, encoder = FeatureCache(2 * (FEATURE_BYTES + ENTRY_BYTES)), Encoder()
    for image in (1, 2, 1, 3, 1, 2):
        through(cache, _batch(image), encoder)
    assert encoder.encoded == [1, 2, 3, 2]
    assert cache.counts.evictions == 2


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=5), max_size=30),
    st.integers(1, 6 * (FEATURE_BYTES + ENTRY_BYTES)),
)
def test_the_bound_holds_and_answers_are_right(batches: list[list[int]], limit: int) -> None:
    cache, encoder = FeatureCache(limit), Encoder()
    for batch in batches:
        features = through(cache, _batch(*batch), encoder)
        assert batch == features[:, 0, 0].tolist()
        assert cache.used_bytes <= limit


def test_names_types_and_shapes_are_part_of_the_key() -> None:
    zeros = np.zeros((2, 8), np.float32)
    inputs = (
        {"a": zeros},
        {"b": zeros},
        {"a": zeros.reshape(4, 4)},
        {"a": zeros.view(np.int32)},
        {"a": zeros, "b": zeros},
    )
    assert len({digest(one) for one in inputs}) == len(inputs)


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=5), max_size=30),
    st.integers(1, 6 * (FEATURE_BYTES // 2 + ENTRY_BYTES)),
)
def test_answers_share_nothing(batches: list[list[int]], limit: int) -> None:
    """Whatever leaves first, features are those of the image and of one request."""
    cache, encoder = FeatureCache(limit), TensorEncoder()
    for batch in batches:
        features = through(cache, _batch(*batch), encoder)
        assert batch == features[:, 0, 0].tolist()
        assert cache.used_bytes <= limit
        features.zero_()


def test_features_leave_before_they_are_copied() -> None:
    """What is kept is taken once the requests have theirs, and before anything is looked up."""
    cache, encoder = FeatureCache(1 << 20), Encoder()

    cache.through(_batch(1), encoder)

    assert cache.used_bytes == 0
    cache.settle()
    assert cache.used_bytes == FEATURE_BYTES + ENTRY_BYTES
    cache.through(_batch(1), encoder)
    assert encoder.encoded == [1]


def test_salts_keep_tenants_apart() -> None:
    cache, encoder = FeatureCache(1 << 20), Encoder()
    for salt in (b"", b"ann", b"bob", b"ann", b"", b"bob"):
        assert through(cache, _batch(1), encoder, salt)[:, 0, 0].tolist() == [1]
    assert (encoder.encoded, cache.counts.hits) == ([1, 1, 1], 3)


def test_tables_are_those_of_the_encoder(built_engine: BuiltEngine) -> None:
    model = built_engine.directory / "vision" / "model.onnx"
    cache = FeatureCache(1 << 20)
    runner = OnnxRunner(model)
    cached = VisionEncoder(
        VisionSession(runner, max_batch_size=1, cache=cache), image_size=IMAGE_SIDE
    )
    fresh = VisionEncoder(VisionSession(runner, max_batch_size=1), image_size=IMAGE_SIDE)
    rng = np.random.default_rng(3)
    one, other = rng.normal(size=(2, 1, 1, 3, IMAGE_SIDE, IMAGE_SIDE)).astype(np.float16)
    requests = [{"pixel_values": one}, {"pixel_values": np.concatenate((other, one), axis=1)}]
    expected = encode_requests(fresh, requests, np.float32)
    for _ in range(2):
        actual = encode_requests(cached, requests, np.float32)
        cache.settle()
        for wanted, got in zip(expected, actual, strict=True):
            assert isinstance(wanted, dict)
            assert isinstance(got, dict)
            name = "OUT_PROMPT_EMBEDDING_TABLE"
            np.testing.assert_array_equal(wanted[name], got[name])
    assert cache.counts.misses == 2


@pytest.fixture(scope="module")
def served(built_engine: BuiltEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    plan = ServingPlan.from_json(built_engine.serving.read_bytes())
    serving = tmp_path_factory.mktemp("cached") / "serving.json"
    serving.write_text(plan.model_copy(update={"feature_cache_bytes": 1 << 20}).to_json())
    with start_serving(built_engine.manifest, serving) as server:
        server.wait_until_ready()
        yield server


def samples_of(served: Served) -> dict[tuple[str, str | None], float]:
    page = httpx.get(f"{served.metrics_url}/metrics", timeout=60).text
    return {
        (sample.name, sample.labels.get("result")): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


@pytest.mark.slow
@pytest.mark.triton
def test_ten_requests_with_one_image_encode_it_once(served: Served) -> None:
    content = base64.b64encode((IMAGES / "red-square.png").read_bytes()).decode()
    url = f"data:image/png;base64,{content}"

    def query(_: int, **salt: str) -> str:
        with Ensemble(served.grpc_url) as client:
            return client.query("What is in the image?", image_url_input=url, **salt).text

    before = samples_of(served)
    with ThreadPoolExecutor(10) as pool:
        assert list(pool.map(query, range(10))) == ["a red square"] * 10
    # Another tenant's request must not be quicker for it.
    assert [query(0, cache_salt="ann") for _ in range(2)] == ["a red square"] * 2
    lookups: dict[str, float] = {}

    def all_are_counted() -> bool:
        now = samples_of(served)
        for result in ("hits", "misses", "shared"):
            name = ("mm_feature_cache_lookups_total", result)
            lookups[result] = now[name] - before[name]
        return sum(lookups.values()) >= 12

    eventually(all_are_counted)
    assert lookups["misses"] == 2
    assert lookups["hits"] + lookups["shared"] == 10
    assert 0 < samples_of(served)["mm_feature_cache_bytes", None] < 1 << 20


@pytest.mark.slow
@pytest.mark.triton
def test_the_page_has_every_series(served: Served) -> None:
    deadline = time.monotonic() + PAGE_SECONDS
    page = ""
    while "mm_server_gpu_sharing{" not in page:  # reported last, after Triton says that it is ready
        assert time.monotonic() < deadline, page
        page = httpx.get(f"{served.metrics_url}/metrics", timeout=60).text
    families = {one.name: one for one in text_string_to_metric_families(page)}

    assert {name for name in families if name.startswith("mm_")} == {
        "mm_decode_batch_requests",
        "mm_encoder_batch_requests",
        "mm_encoder_fallbacks",
        "mm_encoder_queue_seconds",
        "mm_encoder_requests",
        "mm_encoder_seconds",
        "mm_feature_cache_bytes",
        "mm_feature_cache_evictions",
        "mm_feature_cache_lookups",
        "mm_preprocessing_seconds",
        "mm_server_executing_requests",
        "mm_server_gpu_sharing",
        "mm_server_pool_fallbacks",
        "mm_server_pool_planned_bytes",
        "mm_server_restarts",
    }
    assert {
        (family, label): sample.value
        for family in ("mm_server_gpu_sharing", "mm_server_pool_planned_bytes")
        for sample in families[family].samples
        for label in (sample.labels.get("mode") or sample.labels["pool"],)
    } == {
        ("mm_server_gpu_sharing", "none"): 1,
        ("mm_server_pool_planned_bytes", "cuda"): 64 << 20,
        ("mm_server_pool_planned_bytes", "pinned"): 64 << 20,
    }
