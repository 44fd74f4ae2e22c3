"""Models of a development cluster with a GPU: what they are, where they answer, what they use."""

import json
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
from gpu_record import processes_on_gpu
from sites import chat, send

from mm_api.hosts import bracketed
from mm_devcluster.demo import settings, walk
from mm_devcluster.demo.target import Target
from mm_devcluster.errors import DevClusterError

NAMESPACE = settings.DEMO_NAMESPACE
WHERE = ("--namespace", NAMESPACE)
WAIT_SECONDS = 240.0
POD = re.compile(r"pod([0-9a-f_-]{36})/([0-9a-f]{64})")
"""The ids of pod and container in a process's control group."""

Question = tuple[str, bytes]
"""Words and an image."""


def pods(target: Target, *arguments: str) -> list[dict[str, Any]]:
    """Return pods."""
    found: list[dict[str, Any]] = target.document("pods", *arguments).get("items", [])
    return found


def serving_pods(target: Target, model: str, component: str = "server") -> list[dict[str, Any]]:
    """Return the pods that serve a model, the oldest first; or those of its encoders."""
    selector = f"app.kubernetes.io/component={component},app.kubernetes.io/instance={model}"
    found = pods(target, *WHERE, "-l", selector)
    return sorted(found, key=lambda one: str(one["metadata"]["creationTimestamp"]))


def on_gpu_by_pod() -> dict[int, tuple[str, str, int]]:
    """Return process id -> ids of its pod and container, and bytes; of processes in pods only."""
    found = {}
    for pid, used in processes_on_gpu().items():
        with suppress(OSError):
            if match := POD.search(Path(f"/proc/{pid}/cgroup").read_text()):
                found[pid] = (match[1].replace("_", "-"), match[2], used)
    return found


def used_by(target: Target, model: str) -> int:
    """Return the bytes of a model's processes on the GPU."""
    uids = {one["metadata"]["uid"] for one in serving_pods(target, model)}
    return sum(used for uid, _, used in on_gpu_by_pod().values() if uid in uids)


def model_of(target: Target, name: str) -> dict[str, Any]:
    """Return a model."""
    return target.document("multimodalmodel", name, *WHERE)


def until(what: str, is_so: Callable[[], bool], seconds: float = WAIT_SECONDS) -> float:
    """Wait until something holds; return how long that took.

    Raises:
        DevClusterError: it does not in time.
    """
    began = time.monotonic()
    while not is_so():
        if time.monotonic() - began > seconds:
            raise DevClusterError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.2)
    return round(time.monotonic() - began, 1)


def holds(target: Target, name: str, condition: str = "Ready") -> bool:
    """Return whether a condition of a model's present spec holds."""
    return walk.conditions_of(model_of(target, name)).get(condition, walk.NOT_THERE).holds


def address(target: Target, name: str) -> str:
    """Return where a model answers: the machine has routes to Services."""
    service = target.document("service", name, *WHERE)
    return f"http://{bracketed(service['spec']['clusterIP'])}"


def answers(url: str, model: str, questions: Sequence[Question]) -> dict[str, list[str]]:
    """Return the texts of answers to questions, one at a time, unary and streamed."""
    found: dict[str, list[str]] = {"unary": [], "streamed": []}
    with httpx.Client(timeout=60) as client:
        for words, image in questions:
            request = chat(url, model, words, [image], tokens=24)
            found["unary"].append(send(client, request))
            body = {**request["json"], "stream": True}
            pieces = []
            with client.stream("POST", request["url"], json=body) as answer:
                answer.raise_for_status()
                for line in answer.iter_lines():
                    if line.startswith("data: {"):
                        choices = json.loads(line.removeprefix("data: "))["choices"]
                        pieces += [choices[0]["delta"].get("content") or ""] if choices else []
            found["streamed"].append("".join(pieces))
    return found
