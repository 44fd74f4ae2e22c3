"""From a pod's status to the records the planner reads. Pure; names of pods stay out of texts."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from mm_api import labels
from mm_api.contract import ExitCode
from mm_api.quoted_text import steady
from mm_operator.model import GpuFault, PodDamage, PodEnd, PodStart, PodState

_NORMAL = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons of every container that starts as it should, and of one that does not wait."""

TERMINATION_LIMIT = 4096
"""What the kubelet keeps of a container's termination message."""

_TEXT_LIMIT = 2048
"""Length of every other text: more than kubelet and scheduler write, and a message stays readable.
Who may patch the status of pods may write a megabyte."""


def moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return the condition of a type, empty when absent."""
    for entry in status.get("conditions") or ():
        if entry.get("type") == kind:
            found: Mapping[str, Any] = entry
            return found
    return {}


def pod_end(pod: Mapping[str, Any], log_tail: tuple[str, ...] = ()) -> PodEnd | None:
    """Return how a Job's pod ended, or None while it has not.

    The kubelet says that a container ended up to a second before it has taken down the pod and says
    that this one succeeded.
    """
    status = pod.get("status") or {}
    phase, containers = status.get("phase"), status.get("containerStatuses") or ()
    ended_well = bool(containers) and all(map(_ended_well, containers))
    if phase not in {"Succeeded", "Failed"} and not ended_well:
        return None
    ended = terminated(pod)
    disruption = condition(status, "DisruptionTarget")
    return PodEnd(
        pod=pod["metadata"]["name"],
        succeeded=phase != "Failed",
        exit_code=ended.get("exitCode"),
        reason=text_of(ended, "reason"),
        pod_reason=text_of(status, "reason"),
        pod_message=quoted(status, "message") or quoted(disruption, "message"),
        message=text_of(ended, "message", TERMINATION_LIMIT),
        log_tail=log_tail,
        began=_began(pod),
        disrupted=disruption.get("status") == "True",
        finished_at=moment(ended.get("finishedAt")),
    )


def terminated(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the end of the container that decides: the first that failed, else the first."""
    ends: list[Mapping[str, Any]] = [
        state
        for container in _containers(pod)
        if (state := (container.get("state") or {}).get("terminated"))
    ]
    failed = [end for end in ends if end.get("exitCode")]
    return next(iter(failed or ends), {})


def needs_log(pod: Mapping[str, Any]) -> str:
    """Return the container whose log says why a pod failed; empty when its message already does."""
    if (pod.get("status") or {}).get("phase") != "Failed":
        return ""
    for container in _containers(pod):
        end = (container.get("state") or {}).get("terminated") or {}
        if end.get("exitCode") and not end.get("message"):
            return str(container["name"])
    return ""


def why_not_running(pod: Mapping[str, Any]) -> str:
    """Return in one sentence why a pod that did not end does not run either; empty when it does."""
    status = pod.get("status") or {}
    scheduled = condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        return quoted(scheduled, "message") or text_of(scheduled, "reason")
    _, waiting = _worst_waiting(pod)
    if waiting.get("reason", "") in _NORMAL:
        return ""
    message, reason = quoted(waiting, "message"), text_of(waiting, "reason")
    return f"{reason}: {message}" if message else reason


def waits_on_its_node(pod: Mapping[str, Any]) -> datetime | None:
    """Return since when a pod has a node and nothing of it began; None: it did, or has no node."""
    status = pod.get("status") or {}
    scheduled = condition(status, "PodScheduled")
    _, waiting = _worst_waiting(pod)
    starts = waiting.get("reason", "") in _NORMAL and not _began(pod)
    if status.get("phase") != "Pending" or scheduled.get("status") != "True" or not starts:
        return None
    return moment(scheduled.get("lastTransitionTime"))


def _began(pod: Mapping[str, Any]) -> bool:
    """Return whether a container of a pod ever ran; one of which nothing is known did not."""
    return any(
        (state or {}).get("startedAt")
        for container in _containers(pod)
        for states in (container.get("state"), container.get("lastState"))
        for state in (states or {}).values()
    )


def running(pod: Mapping[str, Any]) -> tuple[str, datetime | None]:
    """Return the container that runs and since when; empty and None when none does."""
    for container in _containers(pod):
        state = (container.get("state") or {}).get("running")
        if state is not None:
            return str(container["name"]), moment(state.get("startedAt"))
    return "", None


def pod_state(pod: Mapping[str, Any]) -> PodState:
    """Return a serving pod as the rollout reads it."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    container, waiting = _worst_waiting(pod)
    scheduled = condition(status, "PodScheduled")
    statuses = _containers(pod)
    if waiting.get("reason", "") in _NORMAL:
        # While an init container fails and is started again, all others wait as they always do.
        started = [one for one in statuses if one.get("restartCount") and not _ended_well(one)]
        if started:
            container, waiting = max(started, key=lambda one: one["restartCount"])["name"], {}
        elif not container and statuses:
            container = statuses[0]["name"]
    named = next((one for one in statuses if one["name"] == container), {})
    return PodState(
        serving_hash=(metadata.get("annotations") or {}).get(labels.SERVING_HASH, ""),
        phase=status.get("phase", ""),
        ready=condition(status, "Ready").get("status") == "True",
        container=container,
        waiting=text_of(waiting, "reason"),
        waiting_message=quoted(waiting, "message"),
        last_end=_sentence(_last_end(named)),
        restarts=sum(one.get("restartCount", 0) for one in statuses),
        unschedulable=quoted(scheduled, "message") if scheduled.get("status") == "False" else "",
        terminating="deletionTimestamp" in metadata,
        damage=_damage(statuses),
        gpu=_gpu_fault(statuses),
        name=metadata.get("name", ""),
        template=(metadata.get("labels") or {}).get("pod-template-hash", ""),
        start=_start(pod),
    )


def _start(pod: Mapping[str, Any]) -> PodStart | None:
    """Return what a pod that is not ready does, as the kubelet's probes show.

    The startup probe of the server checks whether its models are loaded, and the gateway's
    readiness waits for the answers that warm it up. A pod of an encoder has no gateway: it loads,
    or answers.
    """
    status = pod.get("status") or {}
    marks = pod["metadata"].get("labels") or {}
    alone = marks.get(labels.APP_COMPONENT) == labels.Component.ENCODER
    ready = condition(status, "Ready")
    beside = status.get("containerStatuses") if alone else None
    servers = [
        (one, running)
        for one in (*(status.get("initContainerStatuses") or ()), *(beside or ()))
        if (running := (one.get("state") or {}).get("running"))
    ]
    if ready.get("status") == "True" or not servers:
        return None
    server, running = servers[0]
    loads = alone or not server.get("started")
    initialized = condition(status, "Initialized").get("lastTransitionTime")
    # A pod that was ready before does what it does since it no longer is.
    begun = (running.get("startedAt") if loads else initialized, ready.get("lastTransitionTime"))
    since = max(filter(None, map(moment, begun)), default=None)
    return PodStart("Loading" if loads else "WarmingUp", since)


def _ended_well(container: Mapping[str, Any]) -> bool:
    end = (container.get("state") or {}).get("terminated")
    return end is not None and not end.get("exitCode")


def _last_end(container: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the end of a container that was started more than once.

    The kubelet shows an end as the present state for most of the back-off that follows it.
    """
    ends = [(container.get(state) or {}).get("terminated") for state in ("state", "lastState")]
    if container.get("restartCount") and not _ended_well(container):
        return next((end for end in ends if end), None)
    return ends[1]


def _damage(statuses: Sequence[Mapping[str, Any]]) -> PodDamage | None:
    """Return what a container said that found its engine damaged, and that does no better since."""
    for end in _unmended(statuses):
        when = moment(end.get("finishedAt"))
        if end.get("exitCode") == ExitCode.ENGINE_CORRUPT and when:
            return PodDamage(_said(end) or "the engine is damaged", when)
    return None


def _gpu_fault(statuses: Sequence[Mapping[str, Any]]) -> GpuFault | None:
    """Return what a container said of its GPU at its last end, and that does no better since."""
    for end in _unmended(statuses):
        if end.get("exitCode") == ExitCode.GPU_OUT_OF_MEMORY:
            return GpuFault(usable=True, message=_said(end) or "the GPU has too little free memory")
        if end.get("exitCode") == ExitCode.GPU_UNUSABLE:
            return GpuFault(usable=False, message=_said(end) or "no GPU can be used")
    return None


def _unmended(statuses: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the ends of containers that neither run now nor ended well, the latest first."""
    for one in statuses:
        states = one.get("state") or {}, one.get("lastState") or {}
        if "running" not in states[0] and not _ended_well(one):
            yield from (end for state in states if (end := state.get("terminated")))


def _said(end: Mapping[str, Any]) -> str:
    return " ".join(quoted(end, "message", TERMINATION_LIMIT).split())


def _containers(pod: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    status = pod.get("status") or {}
    return [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]


def _worst_waiting(pod: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    waiting = [
        (container["name"], state)
        for container in _containers(pod)
        if (state := (container.get("state") or {}).get("waiting"))
    ]
    abnormal = (pair for pair in waiting if pair[1].get("reason", "") not in _NORMAL)
    return next(abnormal, waiting[0] if waiting else ("", {}))


def _sentence(end: Mapping[str, Any] | None) -> str:
    if not end:
        return ""
    text = f"{text_of(end, 'reason') or 'Ended'} with exit code {end.get('exitCode')}"
    message = _said(end)
    return f"{text}: {message}" if message else text


def text_of(of: Mapping[str, Any], field: str, limit: int = _TEXT_LIMIT) -> str:
    """Return a text of a status as it is, up to a limit."""
    return str(of.get(field) or "")[:limit]


def quoted(of: Mapping[str, Any], field: str, limit: int = _TEXT_LIMIT) -> str:
    return steady(text_of(of, field, limit))
