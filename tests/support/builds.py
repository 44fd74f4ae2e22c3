"""Models that are only built, and what is seen of their builds on a real cluster."""

from typing import Any

from mm_api import labels
from mm_api.contract import ExitCode
from support.eventually import eventually
from support.installed import Space

SLOW = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"cpu": "300m", "memory": "2Gi"}}
"""Resources with which a build takes a minute and more (measured 60 s with 400m, 10 s with a full
processor): time for a fault to happen in the middle."""

BUILD = f"{labels.APP_COMPONENT}={labels.Component.BUILD}"


def build_only(space: Space, name: str, path: str, **parts: dict[str, Any]) -> dict[str, Any]:
    model = space.model(name, path, **parts)
    model["spec"]["replicas"] = 0
    return model


def first_build(space: Space, model: str) -> str:
    space.wait(model, "Planned", lambda one: one.holds)
    return f"engine-{space.read(model)['status']['plan']['fingerprint'][:16]}-1"


def build_pods(space: Space, job: str) -> list[dict[str, Any]]:
    pods = space.get("pods", "-l", f"{BUILD},job-name={job}").get("items", [])
    return sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))


def running_build(space: Space, job: str, *, after: str = "") -> dict[str, Any]:
    def running() -> list[dict[str, Any]]:
        return [
            pod
            for pod in build_pods(space, job)
            if pod["metadata"]["name"] != after
            and any("running" in one["state"] for one in pod["status"].get("containerStatuses", ()))
        ]

    found = eventually(running, seconds=120)
    assert found, f"no pod of {job} runs"
    return found[0]


def pods_ever(space: Space, job: str) -> list[str]:
    chosen = ("--field-selector", "involvedObject.kind=Job,reason=SuccessfulCreate")
    events = space.get("events", *chosen).get("items", [])
    return sorted(
        event["message"] for event in events if event["involvedObject"]["name"].startswith(job)
    )


def back_offs(space: Space, model: str) -> list[str]:
    """Return what pods had said that refused an engine, and then waited longer than its rebuild.

    A container that had just been started when the engine was complete again may serve it.
    """
    chosen = f"{labels.MODEL}={model},{labels.APP_COMPONENT}={labels.Component.SERVER}"
    conditions = space.read(model)["status"]["conditions"]
    built = next(one for one in conditions if one["type"] == "EngineBuilt")["lastTransitionTime"]
    return [
        end.get("message", "")
        for pod in space.get("pods", "-l", chosen).get("items", [])
        for kind in ("initContainerStatuses", "containerStatuses")
        for one in pod["status"].get(kind, ())
        if (end := one.get("lastState", {}).get("terminated", {})).get("exitCode")
        == ExitCode.ENGINE_CORRUPT
        and one["state"].get("running", {}).get("startedAt", built) >= built
    ]
