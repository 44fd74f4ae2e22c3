"""Apply the model and follow its conditions: Inspect, Plan, Build, Roll out, Ready."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mm_devcluster.demo import settings
from mm_devcluster.demo.graph import Report
from mm_devcluster.demo.session import Session
from mm_devcluster.errors import DevClusterError
from mm_devcluster.images.catalogue import RUNTIME

POLL_SECONDS = 0.5  # what no watch of the model shows is looked at so often
MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Condition:
    """One condition of the model's status."""

    status: str
    reason: str
    message: str

    @property
    def holds(self) -> bool:
        """Whether its status is True."""
        return self.status == "True"


NOT_THERE = Condition("Unknown", "", "")


def conditions_of(model: Mapping[str, Any]) -> dict[str, Condition]:
    """Read the conditions that belong to the model's present generation."""
    generation = model.get("metadata", {}).get("generation")
    return {
        entry["type"]: Condition(entry["status"], entry["reason"], entry.get("message", ""))
        for entry in model.get("status", {}).get("conditions", [])
        if entry.get("observedGeneration") == generation
    }


def is_rolled_out(deployment: Mapping[str, Any]) -> bool:
    """Return whether every wanted pod of a Deployment's newest revision is available, and no other.

    The same check as ``kubectl rollout status``.
    """
    status = deployment.get("status", {})
    wanted = deployment["spec"]["replicas"]
    return bool(
        status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
        and status.get("updatedReplicas", 0) == wanted
        and status.get("replicas", 0) == wanted
        and status.get("availableReplicas", 0) == wanted
    )


def apply_model(session: Session, _report: Report) -> str:
    """Apply the example as a user would: ``kubectl apply -f``."""
    words = session.target.call("apply", "-f", str(session.options.family.manifest))
    return words.strip().splitlines()[-1]


def wait_inspected(session: Session, report: Report) -> str:
    """Wait until the checkpoint was read."""

    def reached(model: Mapping[str, Any]) -> str | None:
        plan = model.get("status", {}).get("plan", {})
        if not plan.get("family") or not conditions_of(model).get("Planned", NOT_THERE).holds:
            return None
        parameters = plan.get("parameters")
        size = f", {parameters:,} parameters" if parameters else ""
        return f"family {plan['family']}{size}"

    return _wait(session, report, "Planned", settings.INSPECT_TIMEOUT, reached)


def wait_planned(session: Session, report: Report) -> str:
    """Wait until every limit and byte is computed."""

    def reached(model: Mapping[str, Any]) -> str | None:
        if not conditions_of(model).get("Planned", NOT_THERE).holds:
            return None
        plan = model["status"].get("plan", {})
        total = (plan.get("memory") or {}).get("totalBytes", 0) // MEBIBYTE
        return f"{total} MiB per replica, {plan.get('maxConcurrency')} requests at a time"

    return _wait(session, report, "Planned", settings.INSPECT_TIMEOUT, reached)


def wait_built(session: Session, report: Report) -> str:
    """Wait until the engine is in the store."""

    def reached(model: Mapping[str, Any]) -> str | None:
        condition = conditions_of(model).get("EngineBuilt", NOT_THERE)
        return condition.message or condition.reason if condition.holds else None

    return _wait(session, report, "EngineBuilt", settings.BUILD_TIMEOUT, reached)


def wait_rolled_out(session: Session, report: Report) -> str:
    """Wait until pods of the plan answer, and no others are left.

    After an upgrade of the operator the conditions are the old one's until the new one has looked,
    so the pods themselves are checked: they must run the image that was installed.
    """
    served = (RUNTIME, *session.options.family.images)
    images = {session.image_reference(one.name) for one in served}

    def reached(model: Mapping[str, Any]) -> str | None:
        conditions = conditions_of(model)
        available = conditions.get("Available", NOT_THERE)
        if not available.holds or conditions.get("RollingOut", NOT_THERE).status != "False":
            return None
        deployment = session.target.document(
            "deployment", session.options.family.model, "--namespace", settings.DEMO_NAMESPACE
        )
        if not deployment or not is_rolled_out(deployment):
            return None
        own_image = model["spec"].get("runtime", {}).get("image")
        containers = deployment["spec"]["template"]["spec"]["containers"]
        if not own_image and any(container["image"] not in images for container in containers):
            return None
        return available.message or available.reason

    return _wait(session, report, "RollingOut", settings.READY_TIMEOUT, reached)


def wait_ready(session: Session, report: Report) -> str:
    """Wait until the model is Ready."""

    def reached(model: Mapping[str, Any]) -> str | None:
        ready = conditions_of(model).get("Ready", NOT_THERE).holds
        return str(model["status"].get("url", "")) if ready else None

    return _wait(session, report, "Ready", settings.READY_TIMEOUT, reached)


def _wait(
    session: Session,
    report: Report,
    condition: str,
    timeout: float,
    reached: Callable[[Mapping[str, Any]], str | None],
) -> str:
    """Follow the model until something is reached; report what its condition says meanwhile.

    Raises:
        DevClusterError: Not within ``timeout`` seconds; the condition's words are in the message.
    """
    deadline = time.monotonic() + timeout
    arguments = (
        "multimodalmodel",
        session.options.family.model,
        "--namespace",
        settings.DEMO_NAMESPACE,
    )
    with session.target.following(*arguments) as followed:
        while True:
            model = followed.newest(POLL_SECONDS)
            if model is None:  # at the start, or after the watch broke off
                model = session.target.document(*arguments)
            result = reached(model)
            if result is not None:
                return result
            said = conditions_of(model).get(condition)
            words = f"{said.reason}: {said.message}" if said else "the operator has not looked yet"
            if time.monotonic() > deadline:
                raise DevClusterError(
                    f"not reached after {timeout:.0f} s. {condition} says: {words}"
                )
            report(words)
