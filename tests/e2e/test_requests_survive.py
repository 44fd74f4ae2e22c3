"""A served model keeps answering: through a rolling update under load, and a killed gateway."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from openai import APIConnectionError, OpenAI

from mm_api.labels import APP_COMPONENT, Component
from mm_devcluster.demo import questions
from mm_devcluster.demo.walk import is_rolled_out
from support.eventually import eventually
from support.installed import Installed, Space
from support.outside import kill_container
from support.service_clients import answer_to
from support.tiny_llava import Sample, samples

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

MODEL = "tiny-llava"
CLIENTS = 4
BUILD_SECONDS = 240
"""Until an engine is built and its pods are requested; measured 10 to 80 on a busy machine."""
REQUEST_TIMEOUT = 120.0
PAUSE_SECONDS = 0.2
"""After a failure: a refused connection costs nothing, and would be tried thousands of times."""

LEAST_REQUESTS = 50
"""Fewer would prove little; measured: several hundred during one update."""


@pytest.fixture(name="space")
def served_model(installed: Installed, answers: list[questions.Answer]) -> Space:
    assert answers
    return Space(installed, "demo")


@pytest.fixture(name="address")
def service_address(space: Space) -> str:
    return f"http://{space.get('service', MODEL)['spec']['clusterIP']}/v1"


def serving_pods(space: Space) -> list[str]:
    listed = space.get("pods", "--selector", f"{APP_COMPONENT}={Component.SERVER}")
    return sorted(pod["metadata"]["name"] for pod in listed["items"])


@dataclass
class Load:
    """Clients that query without pause until they are instructed to stop."""

    address: str
    stop: threading.Event = field(default_factory=threading.Event)
    right: int = 0
    failed: list[str] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator[None]:
        threads = [
            threading.Thread(
                target=self.query_until_stopped,
                args=(sample,),
                kwargs={"streamed": bool(n % 2), "pooled": n < CLIENTS // 2},
            )
            for n, sample in enumerate(samples()[:CLIENTS])
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stop.set()
            for thread in threads:
                thread.join(REQUEST_TIMEOUT)

    def query_until_stopped(self, sample: Sample, *, streamed: bool, pooled: bool) -> None:
        # Without the client's own retries: they would hide what is looked for.
        with OpenAI(
            base_url=self.address,
            api_key="none",
            timeout=REQUEST_TIMEOUT,
            max_retries=0,
            default_headers={} if pooled else {"Connection": "close"},
        ) as client:
            while not self.stop.is_set():
                try:
                    text = answer_to(client, MODEL, sample.messages, stream=streamed)
                except Exception as error:  # noqa: BLE001 - whatever it is, a request failed
                    self.failed.append(f"{type(error).__name__}: {error}")
                    self.stop.wait(PAUSE_SECONDS)
                else:
                    if text == sample.answer:
                        self.right += 1
                    else:
                        self.failed.append(f"answered {text!r}")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            {"runtime": {"podLabels": {"revision": "two"}}},
            id="same-engine",
            marks=pytest.mark.slow,
        ),
        pytest.param({"engine": {"maxBatchSize": 3}}, id="another-engine"),
    ],
)
def test_a_rolling_update_under_load_fails_no_request(
    space: Space, address: str, change: dict[str, Any]
) -> None:
    before = space.get("deployment", MODEL)["metadata"]["generation"]
    load = Load(address)
    with load.running():
        space.kubectl(
            "patch", "mmm", MODEL, "--type=merge", "--patch", json.dumps({"spec": change})
        )
        eventually(
            lambda: space.get("deployment", MODEL)["metadata"]["generation"] > before,
            seconds=BUILD_SECONDS,
        )
        # Ready stays True: pods of the former revision answer meanwhile.
        eventually(
            lambda: is_rolled_out(space.get("deployment", MODEL)),
            seconds=BUILD_SECONDS,
            showing=lambda: space.get("deployment", MODEL)["status"],
        )
        # The old pod drains after the new one is ready: until it is gone, requests may meet it.
        eventually(lambda: len(serving_pods(space)) == 1, seconds=120, pause_seconds=1)
        time.sleep(2)
        eventually(lambda: load.right >= LEAST_REQUESTS, showing=lambda: load.right)
    assert (load.failed, len(serving_pods(space))) == ([], 1)


@pytest.mark.slow
def test_a_killed_gateway_costs_what_was_in_flight(space: Space, address: str) -> None:
    """Clients see broken connections while its container is started again, and no wrong answer."""
    [name] = serving_pods(space)
    pod = space.get("pod", name)
    before = _restarts(pod)
    load = Load(address)
    with load.running():
        eventually(lambda: load.right >= LEAST_REQUESTS, seconds=90, pause_seconds=1)
        kill_container(pod, "mm-runtime\0gateway")
        eventually(
            lambda: _restarts(space.get("pod", name))["gateway"] > before["gateway"],
            seconds=90,
            pause_seconds=1,
        )
        answered = load.right
        eventually(lambda: load.right >= answered + LEAST_REQUESTS, seconds=90, pause_seconds=1)
        broken = len(load.failed)
        time.sleep(5)
    assert {one.partition(":")[0] for one in load.failed} <= {
        APIConnectionError.__name__,
        "RemoteProtocolError",  # the stream that was being read: httpx's own error
    }
    assert broken == len(load.failed) > 0
    after = _restarts(space.get("pod", name))
    assert after == {**before, "gateway": before["gateway"] + 1}


def _restarts(pod: dict[str, Any]) -> dict[str, int]:
    return {one["name"]: one["restartCount"] for one in pod["status"]["containerStatuses"]}
