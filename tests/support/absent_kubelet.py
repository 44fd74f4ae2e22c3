"""What a kubelet would report, written into pods' status by the test: no node runs here.

Everything above the pod is the real thing: Job, ReplicaSet and Deployment controllers, the API
server, the garbage collector.
"""

import json
from datetime import UTC, datetime
from typing import Any

from mm_api import labels
from mm_api.documents.build_result import BuildFailure, BuildReason, BuildResult
from mm_api.documents.model_facts import InspectResult, ModelFacts
from support.eventually import eventually
from support.model_namespace import Api
from support.models import tiny_facts


def inspected(api: Api, model: str, facts: ModelFacts | None = None) -> None:
    message = InspectResult(facts=facts or tiny_facts()).to_json()
    selector = f"{labels.MODEL}={model},{labels.APP_COMPONENT}={labels.Component.INSPECT}"
    end_pod(api, wait_for_pod(api, selector), message=message)


def built(api: Api, **found: Any) -> str:
    """Let the build pod of the namespace end well; return the fingerprint.

    `found` are fields of the result: GPU and versions that a builder of engines reports.
    """
    pod = wait_for_pod(api, f"{labels.APP_COMPONENT}={labels.Component.BUILD}")
    fingerprint = fingerprint_of(api, pod)
    result = BuildResult(
        fingerprint=fingerprint, manifest_sha256="ab" * 32, step_seconds={"export": 1.5}, **found
    )
    end_pod(api, pod, message=result.to_json())
    return fingerprint


def build_failed(api: Api, *, exit_code: int, reason: BuildReason, message: str) -> None:
    pod = wait_for_pod(api, f"{labels.APP_COMPONENT}={labels.Component.BUILD}")
    failure = BuildFailure(
        reason=reason,
        step="export",
        exit_code=exit_code,
        message=message,
        log_tail=["last line"],
        retryable=False,
    )
    result = BuildResult(fingerprint=fingerprint_of(api, pod), failure=failure)
    end_pod(api, pod, message=result.to_json(), exit_code=exit_code)


def fingerprint_of(api: Api, pod: dict[str, Any]) -> str:
    volumes = pod["spec"]["volumes"]
    name = next(one["configMap"]["name"] for one in volumes if one["name"] == "plan")
    plan = get(api, "configmap", name)["data"]["plan.json"]
    return str(json.loads(plan)["fingerprint"])


def serving(api: Api, model: str) -> None:
    selector = f"{labels.MODEL}={model},{labels.APP_COMPONENT}={labels.Component.SERVER}"
    wait_for_pod(api, selector)
    for pod in pods(api, selector):
        set_status(api, pod, ready_status(pod))


def make_ready(api: Api, model: str) -> None:
    inspected(api, model)
    built(api)
    serving(api, model)
    api.reaches(model, "Ready", "True")


def wait_for_pod(api: Api, selector: str) -> dict[str, Any]:
    found = eventually(lambda: pods(api, selector))
    assert found, f"no pod of {selector} was made"
    return found[0]


def pods(api: Api, selector: str) -> list[dict[str, Any]]:
    listed = api.read("pods", "-l", selector)["items"]
    return [
        pod for pod in listed if pod.get("status", {}).get("phase") not in {"Succeeded", "Failed"}
    ]


def end_pod(
    api: Api, pod: dict[str, Any], *, message: str = "", exit_code: int = 0, reason: str = ""
) -> None:
    container = pod["spec"]["containers"][0]
    now = _now()
    state = {
        "exitCode": exit_code,
        "reason": reason or ("Error" if exit_code else "Completed"),
        "message": message,
        "startedAt": now,
        "finishedAt": now,
    }
    phase = "Failed" if exit_code else "Succeeded"
    entry = _container(container, {"terminated": state}, ready=False)
    set_status(api, pod, {"phase": phase, "containerStatuses": [entry]})


def set_status(api: Api, pod: dict[str, Any], status: dict[str, Any]) -> None:
    body = json.dumps({"status": status})
    name = pod["metadata"]["name"]
    api.kubectl("patch", "pod", name, "--subresource=status", "--type=merge", "-p", body)


def get(api: Api, kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = api.read(kind, name)
    return found


def ready_status(pod: dict[str, Any]) -> dict[str, Any]:
    running = {"running": {"startedAt": _now()}}
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": _now()}
        for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
    spec = pod["spec"]
    return {
        "phase": "Running",
        "conditions": conditions,
        "containerStatuses": [_container(one, running) for one in spec["containers"]],
        "initContainerStatuses": [
            _container(one, running) for one in spec.get("initContainers", ())
        ],
    }


def _container(
    container: dict[str, Any], state: dict[str, Any], *, ready: bool = True
) -> dict[str, Any]:
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": ready,
        "restartCount": 0,
        "started": ready,
        "state": state,
    }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
