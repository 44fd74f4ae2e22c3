"""Vision encoders in pods of their own on an entire cluster: used, missed by no one, gone again."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from openai import OpenAI
from prometheus_client.parser import text_string_to_metric_families

from mm_api.labels import APP_COMPONENT, Component
from mm_runtime.serving.metrics.collected import COLLECTED_SECONDS
from support.eventually import eventually
from support.installed import RESOURCES, Installed, Space, model_space
from support.service_clients import client_of
from support.tiny_llava import CHECKPOINT, Sample, samples

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1200)]

MODEL = "apart"
ENCODERS = f"{MODEL}-encoders"
CLIENTS = 4
READY_SECONDS = 500
"""A build and three pods that share two cores with the test."""

VISION: dict[str, Any] = {
    "placement": "Disaggregated",
    "replicas": 2,
    "featureCacheBytes": "16Mi",
    "resources": RESOURCES,
}


@pytest.fixture(name="space", scope="module")
def served_model(installed: Installed) -> Iterator[Space]:
    with model_space(installed, "encoders") as space:
        space.upload(CHECKPOINT, "tiny")
        space.apply(space.model(MODEL, "tiny", vision=VISION))
        space.wait_ready(MODEL, READY_SECONDS)
        space.wait(MODEL, "EncodersReady", lambda found: found.holds, READY_SECONDS)
        eventually(lambda: _knows_encoders(space), showing=lambda: _encoder_lines(space))
        eventually(lambda: _work_is_measured(space))
        time.sleep(4 * COLLECTED_SECONDS)  # its last requests may not be on the pages yet
        yield space


@pytest.fixture(name="client")
def openai_client(space: Space) -> Iterator[OpenAI]:
    with client_of(space, MODEL) as client:
        yield client


def _query(client: OpenAI, sample: Sample) -> str | None:
    messages: Any = sample.messages
    answer = client.chat.completions.create(
        model=MODEL, messages=messages, temperature=0, max_tokens=24
    )
    return answer.choices[0].message.content


def _pods(space: Space, component: str) -> list[dict[str, Any]]:
    listed = space.get("pods", "--selector", f"{APP_COMPONENT}={component}")
    return [pod for pod in listed["items"] if pod["status"].get("podIP")]


def _counted(space: Space, component: str, port: int, metric: str) -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = {}
    for pod in _pods(space, component):
        url = f"http://{pod['status']['podIP']}:{port}/metrics"
        for family in text_string_to_metric_families(httpx.get(url, timeout=30).text):
            for one in family.samples:
                if one.name == metric and one.value:
                    key = tuple(one.labels.get(name, "") for name in ("by", "reason", "result"))
                    found[key] = found.get(key, 0) + one.value
    return found


def _encoder_lines(space: Space) -> list[str]:
    (pod,) = _pods(space, Component.SERVER)
    log = space.kubectl("logs", pod["metadata"]["name"], "-c", "server")
    return [line for line in log.splitlines() if "vision encoders: " in line]


def _knows_encoders(space: Space) -> bool:
    """Return whether the server's last look-up found both: DNS is seconds behind their readiness.

    Until then it encodes images itself, or has all of them encoded by the first of the two.
    """
    last = _encoder_lines(space)[-1]
    return all(f"{pod['status']['podIP']}:" in last for pod in _pods(space, Component.ENCODER))


def _work_is_measured(space: Space) -> bool:
    """Return whether the server's own benchmark is over, whose requests about images count, too.

    It begins once the server is Ready and no client's request is inside.
    """
    return bool(_counted(space, Component.SERVER, 8080, "mm_work_seconds"))


def _by(space: Space) -> dict[str, float]:
    counts = _counted(space, Component.SERVER, 8080, "mm_encoder_requests_total")
    return {by: count for (by, _, _), count in counts.items()}


def _misses(space: Space) -> float:
    lookups = _counted(space, Component.ENCODER, 8002, "mm_feature_cache_lookups_total")
    return sum(count for (_, _, result), count in lookups.items() if result == "misses")


def test_images_are_encoded_in_their_pods(space: Space, client: OpenAI) -> None:
    """Every sample is answered right; each image was encoded once, by one of the two."""
    before, known = _by(space).get("encoders", 0), _misses(space)
    assert [sample.answer for sample in samples()] == [_query(client, one) for one in samples()]
    eventually(lambda: _by(space).get("encoders", 0) - before == len(samples()))
    eventually(lambda: _misses(space) > known)
    assert 0 < _misses(space) - known <= len({one.image for one in samples()})
    status = space.read(MODEL)["status"]
    assert status["encoders"] == {"replicas": 2, "readyReplicas": 2}
    assert status["plan"]["encoderMemory"]["featureCacheBytes"] == 16 << 20


def test_encoders_killed_under_load_fail_no_request(space: Space, client: OpenAI) -> None:
    """Both are deleted without grace while four clients query: every answer is right."""
    gone = threading.Event()

    def query(_: int) -> list[tuple[str | None, str]]:
        answers = []
        for late in (False, True):
            while not late and not gone.is_set():
                answers += [(_query(client, one), one.answer) for one in samples()]
            answers += [(_query(client, one), one.answer) for one in samples()]
        return answers

    with ThreadPoolExecutor(CLIENTS) as pool:
        requested = [pool.submit(query, number) for number in range(CLIENTS)]
        names = [pod["metadata"]["name"] for pod in _pods(space, Component.ENCODER)]
        space.kubectl("delete", "pods", *names, "--grace-period=0", "--force", "--wait=false")
        fallbacks = "mm_encoder_fallbacks_total"
        try:  # their containers outlive what the API server has of them
            eventually(lambda: sum(_counted(space, Component.SERVER, 8080, fallbacks).values()) > 0)
        finally:
            gone.set()
        answers = [answer for one in requested for answer in one.result(timeout=300)]
    assert [right for _, right in answers] == [said for said, _ in answers]
    space.wait(MODEL, "EncodersReady", lambda found: found.holds, READY_SECONDS)
    before = _by(space)["encoders"]
    eventually(lambda: bool(_query(client, samples()[0])) and _by(space)["encoders"] > before)


def test_a_change_of_mind_leaves_nothing(space: Space, client: OpenAI) -> None:
    """Colocated again: the encoders' objects go, and the model answers by itself."""
    space.apply(space.model(MODEL, "tiny", vision={"placement": "Colocated"}))
    for kind in ("deployment", "service", "poddisruptionbudget"):
        eventually(
            lambda kind=kind: ENCODERS not in space.names(kind),
            seconds=120,
            showing=lambda: space.names("deployment,service,poddisruptionbudget"),
        )
    space.wait(MODEL, "RollingOut", lambda found: found.reason == "RolloutComplete", READY_SECONDS)
    assert "encoders" not in space.read(MODEL)["status"]
    assert _query(client, samples()[0]) == samples()[0].answer
