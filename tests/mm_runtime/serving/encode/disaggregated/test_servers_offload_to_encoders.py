"""Images are encoded in pods of their own; without those the server encodes them itself."""

import base64
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.encode.disaggregated.client import (
    EncoderClient,
    EncoderError,
    FallbackReason,
)
from mm_runtime.serving.encode.disaggregated.identity import vision_identity
from mm_runtime.serving.encode.disaggregated.responses import ExpectedFeatures
from mm_runtime.serving.encode.vision.pixel_bytes import normalisation_of
from support.encoder_pairs import KEY, TIMEOUT_SECONDS, Pair, counted, run_encoder_pair
from support.ensemble import Ensemble, EnsembleError
from support.eventually import eventually
from support.served import Served
from support.tiny_llava import IMAGE_SIDE, BuiltEngine, Sample, samples

pytestmark = pytest.mark.triton

CLIENTS = 4
BY, WHY = "mm_encoder_requests_total", "mm_encoder_fallbacks_total"
RUNS = "nv_inference_count"
PREPARED = "mm_preprocessing_seconds_count"
LOOKUPS = "mm_feature_cache_lookups_total"


@pytest.fixture(scope="module")
def pair(built_engine: BuiltEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with run_encoder_pair(built_engine, tmp_path_factory.mktemp("pair")) as both:
        yield both
        # Whatever happens to its encoder, and although all counts would begin again unseen.
        assert "ended unexpectedly" not in both.server.log


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def runs_of(encoder: Served) -> float:
    return counted(encoder, RUNS).get("vision_encoder", 0)


def encodings(pair: Pair) -> float:
    return sum(counted(pair.server, BY).values())


def _url(sample: Sample) -> str:
    return "data:image/png;base64," + base64.b64encode(sample.image.read_bytes()).decode()


def _query(client: Ensemble, sample: Sample) -> str:
    return client.query(sample.question, image_url_input=_url(sample)).text


def test_answers_are_those_of_one_pod(pair: Pair) -> None:
    before = counted(pair.server, BY), counted(pair.server, WHY)
    with Ensemble(pair.server.grpc_url) as client:
        answers = [_query(client, sample) for sample in samples()]
    assert [sample.answer for sample in samples()] == answers
    requested = before[0].get("encoders", 0) + len(answers)
    eventually(lambda: encodings(pair) >= requested)
    assert ({**before[0], "encoders": requested}, before[1]) == (
        counted(pair.server, BY),
        counted(pair.server, WHY),
    )
    images = len({one.image for one in samples()})
    eventually(lambda: counted(pair.encoder, LOOKUPS).get("misses") == images)


def client_of(pair: Pair, engine: EngineDirectory) -> EncoderClient:
    assert engine.vision is not None
    return EncoderClient(
        lambda: [pair.encoder.grpc_url],
        identity=vision_identity(engine.manifest),
        expected_features=ExpectedFeatures.of(engine.facts, engine.vision, np.float32),
        timeout_seconds=TIMEOUT_SECONDS,
        key=KEY,
    )


def test_bytes_have_the_features_of_values(pair: Pair, built_engine: BuiltEngine) -> None:
    engine = EngineDirectory.open(built_engine.directory)
    client, normalisation = client_of(pair, engine), normalisation_of(engine)
    assert normalisation is not None
    for number in range(3):
        pixels = np.random.default_rng(number).integers(
            0, 256, (1, 1, IMAGE_SIDE, IMAGE_SIDE, 3), dtype=np.uint8
        )
        values = normalisation.of_images(pixels[0])[np.newaxis]
        found = client.encode({"pixel_bytes": pixels})
        expected = client.encode({"pixel_values": values})
        assert found.keys() == expected.keys()
        for name, one in found.items():
            assert one.tobytes() == expected[name].tobytes(), name


def test_an_encoder_says_which_input_it_has_not(pair: Pair, built_engine: BuiltEngine) -> None:
    """In the words by which a server knows an encoder of a version that takes no bytes."""
    client = client_of(pair, EngineDirectory.open(built_engine.directory))
    with pytest.raises(EncoderError) as refused:
        client.encode({"strange": np.zeros((1, 1, 2, 2, 3), np.uint8)})
    assert refused.value.why is FallbackReason.FAILED
    assert "unexpected inference input 'strange'" in str(refused.value)


def test_questions_without_images_stay(pair: Pair) -> None:
    before = counted(pair.server, BY)
    with Ensemble(pair.server.grpc_url) as client:
        client.query("What is in the image?")
        # Counted after the question, so the page shows neither or both.
        _query(client, samples()[0])
    eventually(lambda: encodings(pair) > sum(before.values()))
    assert {**before, "encoders": before["encoders"] + 1} == counted(pair.server, BY)


def test_a_slow_encoder_holds_up_its_own_request_only(pair: Pair) -> None:
    with (
        stopped(pair.encoder.server_pid),
        Ensemble(pair.server.grpc_url) as one,
        Ensemble(pair.server.grpc_url) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        before = counted(pair.server, PREPARED).get("", 0)
        waiting = pool.submit(_query, one, samples()[0])
        eventually(lambda: counted(pair.server, PREPARED).get("", 0) > before)
        other.query("What is in the image?", max_tokens=1)
        answered_first = not waiting.done()
        os.kill(pair.encoder.server_pid, signal.SIGCONT)
        assert waiting.result(TIMEOUT_SECONDS) == samples()[0].answer
    assert answered_first


def test_bad_images_are_reported_by_the_server(pair: Pair) -> None:
    with Ensemble(pair.server.grpc_url) as client, pytest.raises(EnsembleError) as refused:
        client.query("What is in the image?", image_input=[[[[[0.0]]]]])
    assert "expected [images, 3, 56, 56]" in str(refused.value)


def test_bad_images_reach_no_encoder(pair: Pair) -> None:
    with Ensemble(pair.server.grpc_url) as client:

        def an_encoder_answers() -> bool:
            before, run = counted(pair.server, BY), runs_of(pair.encoder)
            _query(client, samples()[0])
            eventually(lambda: encodings(pair) > sum(before.values()))
            if counted(pair.server, BY)["encoders"] == before["encoders"]:
                return False
            # Triton counts a run once its answer is out.
            eventually(lambda: runs_of(pair.encoder) > run)
            return True

        eventually(an_encoder_answers)
        requested = counted(pair.server, BY), counted(pair.server, WHY)
        runs = runs_of(pair.encoder)
        with pytest.raises(EnsembleError):
            client.query("What is in the image?", image_input=[[[[[0.0]]]]])
        assert runs == runs_of(pair.encoder)
        # Counted after the wrong image, so the page shows neither or both.
        _query(client, samples()[0])
    by, why = requested
    eventually(lambda: encodings(pair) > sum(by.values()))
    assert ({**by, "encoders": by["encoders"] + 1}, why) == (
        counted(pair.server, BY),
        counted(pair.server, WHY),
    )


@pytest.mark.slow
def test_an_encoder_killed_under_load_fails_no_request(pair: Pair) -> None:
    killed, stop = threading.Event(), threading.Event()

    def query(_: int) -> tuple[int, int]:
        right = requested = 0
        with Ensemble(pair.server.grpc_url) as client:
            while not stop.is_set():
                for sample in samples():
                    right += sample.answer == _query(client, sample)
                    requested += 1
                if killed.is_set():
                    stop.set()
        return right, requested

    with ThreadPoolExecutor(CLIENTS) as pool:
        clients = pool.map(query, range(CLIENTS))
        child = Path(f"/proc/{pair.encoder.process.pid}/task/{pair.encoder.process.pid}/children")
        eventually(lambda: counted(pair.server, BY).get("encoders", 0) > len(samples()))
        os.kill(int(child.read_text().split()[0]), signal.SIGKILL)
        eventually(lambda: sum(counted(pair.server, WHY).values()) > 0)
        killed.set()
        results = list(clients)
    assert [requested for _, requested in results] == [right for right, _ in results]
    pair.encoder.wait_until_ready(starts=2)
    before = counted(pair.server, BY)["encoders"]

    def encoders_answer() -> bool:
        with Ensemble(pair.server.grpc_url) as client:
            _query(client, samples()[0])
        return counted(pair.server, BY)["encoders"] > before

    eventually(encoders_answer)
