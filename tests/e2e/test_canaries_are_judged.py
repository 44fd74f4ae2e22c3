"""On the entire development cluster: a new revision is tried on some chats, under load.

The states of each try, with their comparisons and moments, are printed (`pytest -rP`).
"""

import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest
from openai import OpenAI
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from mm_api.labels import APP_COMPONENT, Component
from support.eventually import eventually
from support.images import data_url
from support.installed import RESOURCES, Installed, Space, model_space, with_router
from support.service_clients import answer_to
from support.tiny_llava import CHECKPOINT, Sample, samples

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(900)]

MODEL = "judged"
USERS = 3
STEPS = [{"weight": 40, "pause": "5s"}, {"weight": 60}]
ANALYSIS = {
    "errorIncreasePercent": 20,
    "firstTextIncreasePercent": 100,
    "interTokenIncreasePercent": 200,
}
THROTTLED = {**RESOURCES, "limits": {**RESOURCES["limits"], "cpu": "100m"}}
BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "crashes": ("5m", {}, "PodsCrashing"),
    "never-ready": ("20s", {"image": "localhost/absent:1"}, "ProgressDeadlineExceeded"),
    "slow": ("5m", {"resources": THROTTLED}, "FirstTextSlower"),
}
"""Its progressDeadline, what is bad in spec.runtime, and its reason to go back."""


@pytest.fixture(name="served", scope="module")
def stable_revision(installed: Installed) -> Iterator[tuple[Space, str]]:
    """Yield the model's namespace and the router's address."""
    with with_router(installed) as address, model_space(installed, "canaries") as space:
        space.upload(CHECKPOINT, "tiny")
        revise(space, "first")
        space.wait_ready(MODEL, 400)
        yield space, address


def revise(space: Space, label: str, deadline: str = "5m", **runtime: Any) -> None:
    """Apply a spec of another revision and the same engine."""
    canary = {"steps": STEPS, "analysis": ANALYSIS}
    rollout = {"strategy": "Canary", "progressDeadline": deadline, "canary": canary}
    runtime = {"podLabels": {"revision": label}, **runtime}
    space.apply(space.model(MODEL, "tiny", rollout=rollout, runtime=runtime))


def pods(space: Space, component: Component) -> dict[str, str]:
    """Return the revision's label of each pod by its name."""
    listed = space.get("pods", "--selector", f"{APP_COMPONENT}={component}")["items"]
    return {one["metadata"]["name"]: one["metadata"]["labels"]["revision"] for one in listed}


def chat(sample: Sample, number: int) -> list[dict[str, Any]]:
    """Return the sample's question as another chat: its file has a number in it."""
    note, content = PngInfo(), io.BytesIO()
    note.add_text("chat", str(number))
    Image.open(sample.image).save(content, "png", pnginfo=note)
    url = {"url": data_url(content.getvalue())}
    parts = [{"type": "text", "text": sample.question}, {"type": "image_url", "image_url": url}]
    return [{"role": "user", "content": parts}]


def query(address: str, number: int, stop: Event, answers: list[str]) -> None:
    """Begin one chat after the other, half of them streamed, without retries."""
    with OpenAI(base_url=address, api_key="none", max_retries=0, timeout=60) as client:
        while not stop.is_set():
            number += USERS
            sample, stream = samples()[number % 4], number % 8 < 4
            try:
                text = answer_to(client, MODEL, chat(sample, number), stream=stream)
            except Exception as error:  # noqa: BLE001 - whatever it is, a request failed
                text = f"{type(error).__name__}: {error}"
            answers.append("right" if text == sample.answer else f"{number}: {text}")


@contextmanager
def users(address: str) -> Iterator[list[str]]:
    """Yield the list of answers, each `right` or what was wrong; all have to be right."""
    stop, answers = Event(), list[str]()
    with ThreadPoolExecutor(USERS) as pool:
        sent = [pool.submit(query, address, first, stop, answers) for first in range(USERS)]
        try:
            yield answers
        finally:
            stop.set()
    assert [one.exception() for one in sent] == [None] * USERS
    print(f"{len(answers)} answers")  # noqa: T201
    assert set(answers) == {"right"}


def judged(space: Space, phase: str, *revision: str, **runtime: Any) -> dict[str, Any]:
    """Apply a revision and wait for what becomes of it; return that."""
    former = space.read(MODEL)["status"].get("rollout", {}).get("revision")
    revise(space, *revision, **runtime)
    states = dict[tuple[Any, ...], dict[str, Any]]()

    def is_judged() -> bool:
        found = space.read(MODEL)["status"].get("rollout", {})
        if found.get("revision", former) != former:
            states[found["phase"], found["step"], found["weight"], found["reason"]] = found
        return any(key[0] == phase for key in states)

    eventually(is_judged, seconds=300, showing=lambda: states)
    print(*states.values(), sep="\n")  # noqa: T201
    eventually(lambda: not pods(space, Component.CANARY), pause_seconds=1)
    return list(states.values())[-1]


def test_a_good_revision_is_promoted_without_a_failed_request(served: tuple[Space, str]) -> None:
    space, address = served
    with users(address):
        assert judged(space, "Promoted", "good")["weight"] == 0
        eventually(lambda: set(pods(space, Component.SERVER).values()) == {"good"})


@pytest.mark.parametrize("name", BAD)
def test_a_bad_revision_goes_back(served: tuple[Space, str], name: str) -> None:
    """The stable one's pods stay; no request fails, nor one of those that the canary answered."""
    (space, address), (deadline, bad, reason) = served, BAD[name]
    if name == "crashes":  # the server's program is not in this image
        bad = {"image": space.installed.session.image_reference("operator")}
    stable = pods(space, Component.SERVER)
    with users(address) as answers:
        back = judged(space, "RolledBack", name, deadline, **bad)
        before = len(answers)
        eventually(lambda: len(answers) > before + 20)
    assert (back["reason"], back["step"], back["weight"]) == (reason, 1, 0)
    assert pods(space, Component.SERVER) == stable
    assert reason in space.wait_reason(MODEL, "Degraded", "CanaryRolledBack").message
    assert space.wait_ready(MODEL)
