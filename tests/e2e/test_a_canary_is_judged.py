"""On the entire development cluster: a new revision is tried on some chats, under load.

The states of each try, with their comparisons and moments, are printed (`pytest -rP`).
"""

import io
import shutil
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
from support.damaged_engines import negate
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
    "answers": {"agreementPercent": 80, "samplesPerMinute": 600},
}
THROTTLED = {**RESOURCES, "limits": {**RESOURCES["limits"], "cpu": "100m"}}
BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "crashes": ("5m", {}, "PodsCrashing"),
    "never-ready": ("20s", {"image": "localhost/absent:1"}, "ProgressDeadlineExceeded"),
    "slow": ("5m", {"resources": THROTTLED}, "FirstTextSlower"),
    "damaged": ("5m", {}, "AnswersDiffer"),
    "blind": ("5m", {}, "AnswersDiffer"),
}
"""Its progressDeadline, what is bad in spec.runtime, and its reason to go back."""

DAMAGED = {"damaged": "down_proj", "blind": "multi_modal_projector.linear_2"}
"""Checkpoints whose pods are Ready, as they answer like themselves: what is negated in each."""


@pytest.fixture(name="served", scope="module")
def stable_revision(
    installed: Installed, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Space, str]]:
    """Yield the model's namespace and the router's address."""
    with with_router(installed) as address, model_space(installed, "canaries") as space:
        space.upload(CHECKPOINT, "tiny")
        for name, part in DAMAGED.items():
            copy = tmp_path_factory.mktemp(name) / name
            shutil.copytree(CHECKPOINT, copy)
            negate(copy / "model.safetensors", part)
            space.upload(copy, name)
        revise(space, "first")
        space.wait_ready(MODEL, 400)
        yield space, address


def revise(space: Space, label: str, deadline: str = "5m", **runtime: Any) -> None:
    """Apply a spec of another revision, of its own checkpoint if it has one."""
    canary = {"steps": STEPS, "analysis": ANALYSIS}
    rollout = {"strategy": "Canary", "progressDeadline": deadline, "canary": canary}
    runtime = {"podLabels": {"revision": label}, **runtime}
    path = label if label in DAMAGED else "tiny"
    space.apply(space.model(MODEL, path, rollout=rollout, runtime=runtime))


def pods(space: Space, component: Component) -> dict[str, str]:
    """Return the revision's label of each pod by its name."""
    listed = space.get("pods", "--selector", f"{APP_COMPONENT}={component}")["items"]
    return {one["metadata"]["name"]: one["metadata"]["labels"]["revision"] for one in listed}


def chat(sample: Sample, number: int) -> list[dict[str, Any]]:
    """Return the sample's question as another chat: its file has a number in it.

    Every third one has no file, and the question so often that it is another chat.
    """
    if number % 3 == 0:
        return [{"role": "user", "content": " ".join([sample.question] * (1 + number % 5))}]
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
                answers.append(f"{number}: {type(error).__name__}: {error}")
                continue
            is_right = text == sample.answer or number % 3 == 0
            answers.append("right" if is_right else "wrong")


@contextmanager
def users(address: str, *allowed: str) -> Iterator[list[str]]:
    """Yield the list of answers, each `right`, `wrong` or an error; all have to be right."""
    stop, answers = Event(), list[str]()
    with ThreadPoolExecutor(USERS) as pool:
        sent = [pool.submit(query, address, first, stop, answers) for first in range(USERS)]
        try:
            yield answers
        finally:
            stop.set()
    assert [one.exception() for one in sent] == [None] * USERS
    print(f"{len(answers)} answers")  # noqa: T201
    assert set(answers) == {"right", *allowed}


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

    eventually(is_judged, seconds=500, showing=lambda: states)
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
    """The stable one's pods stay; no request fails, nor one of those that the canary answered.

    Of a damaged checkpoint its answers are wrong meanwhile, and of the blind one with images alone.
    """
    (space, address), (deadline, bad, reason) = served, BAD[name]
    if name == "crashes":  # the server's program is not in this image
        bad = {"image": space.installed.session.image_reference("operator")}
    stable = pods(space, Component.SERVER)
    with users(address, *(["wrong"] if name in DAMAGED else [])) as answers:
        back = judged(space, "RolledBack", name, deadline, **bad)
        before = len(answers) + USERS
        eventually(lambda: len(answers) > before + 20)
        assert set(answers[before:]) == {"right"}
    assert (back["reason"], back["step"], back["weight"]) == (reason, 1, 0)
    assert name != "blind" or back["message"].endswith(" with images")
    assert pods(space, Component.SERVER) == stable
    assert reason in space.wait_reason(MODEL, "Degraded", "CanaryRolledBack").message
    assert space.wait_ready(MODEL)
