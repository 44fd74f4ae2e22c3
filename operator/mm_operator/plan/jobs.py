"""Reading Jobs: which attempt is the current one, why it waits, what it was made from."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mm_api import labels
from mm_api.conditions import Reason
from mm_api.sentences import joined
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_api.v1alpha1.network import NetworkSpec
from mm_operator.digests import digest, stated
from mm_operator.model import ConfigState, JobState, PlanSettings
from mm_operator.plan.failures import Failure
from mm_operator.plan.refusals import is_quota, is_refused, lacks_claim, waits_for_volume
from mm_operator.plan.start_errors import lacking, lacks_program, not_created

RETRIED = "it is retried automatically, and at once when the spec changes"
"""What a condition says of a failed Job beside its cause."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays in seconds: `first`, then doubled with every attempt, never above `longest`."""

    first: float
    longest: float

    def seconds_left(self, *, attempt: int, finished_at: datetime | None, now: datetime) -> float:
        """Return how long the next attempt has to wait; 0 when it is due.

        Without a `finished_at` the delay starts over at `now`.
        """
        delay = min(self.first * 2.0 ** min(attempt - 1, 30), self.longest)
        waited = (now - finished_at).total_seconds() if finished_at else 0.0
        return max(0.0, delay - waited)


INSPECT = Backoff(first=30, longest=600)
"""An inspection is cheap and is the only way to notice that a source was repaired."""

BUILD = Backoff(first=60, longest=3600)
"""A build may hold a GPU for an hour. The Job itself retried already; this comes after."""


_MAKE = "make it, or correct its name in the spec"

_CHECK = {
    Reason.IMAGE_PULL_FAILED: "check spec.build.image, or the operator's --runtime-image where "
    "that is absent, and spec.runtime.imagePullSecrets",
    Reason.CREATE_CONTAINER_CONFIG_ERROR: _MAKE,
}


@dataclass(frozen=True, slots=True)
class JobInputs:
    """What a model's Jobs are made from beside their inputs, as a digest, and whose they are."""

    digest: str
    model_uid: str

    def replace(self, job: JobState, config: ConfigState | None = None) -> bool:
        """Return whether a Job follows other terms and is this model's to replace.

        A Job of another model that still wants the engine (it owns `config`) is left to that one:
        two models of different terms would replace each other's Jobs without end. So is a Job that
        records no terms: it is not ours to judge.
        """
        owners = {owner.uid for owner in config.owners} if config else set()
        others = owners - {self.model_uid}
        if job.annotations.get(labels.MADE_BY, self.model_uid) in others:
            return False
        return job.annotations.get(labels.TERMS_HASH, self.digest) != self.digest


def job_inputs(spec: MultimodalModelSpec, settings: PlanSettings, uid: str) -> JobInputs:
    """Return the terms of a model: a change of any of them is worth a new Job."""
    # Neither how long unused engines stay nor how long Jobs do changes anything in a build.
    store = spec.build.store.model_copy(update={"gc_after": None})
    lasting = type(spec.build)().ttl_after_finished
    build = spec.build.model_copy(update={"store": store, "ttl_after_finished": lasting})
    content: dict[str, Any] = {
        "build": stated(build),
        "source": stated(spec.model.source),
        "image": spec.build.image or settings.runtime_image,
        "pullSecrets": settings.pull_secrets_of(spec),
    }
    network = spec.network.over(settings.network).of_jobs
    if network != NetworkSpec():
        content["network"] = stated(network)
    if settings.user_ids_of(spec) == "Namespace":
        content["userIds"] = "Namespace"
    if spec.runtime.gpu.device_class_name:
        gpu = spec.runtime.gpu
        content["devices"] = [gpu.device_class_name, *gpu.device_selectors]
    if spec.engine.lora:
        content["adapters"] = [stated(one) for one in spec.engine.lora]
    return JobInputs(digest(content), uid)


_MOST_DIGITS = 9
"""Digits of an attempt's number; the annotation is a text that any client may have written."""


def attempt_of(job: JobState) -> int:
    """Return the number of a Job's attempt; a Job that does not say is the first."""
    text = job.annotations.get(labels.ATTEMPT, "")
    known = text.isdecimal() and len(text) <= _MOST_DIGITS and int(text) > 0
    return int(text) if known else 1


def is_of(job: JobState, config: ConfigState) -> bool:
    """Return whether a build Job belongs to this record of an engine.

    It does not when the record was deleted and written again before the garbage
    collector came for the Jobs of the former one.
    """
    return job.owner_uid in {"", config.uid}


def latest(jobs: Iterable[JobState]) -> JobState | None:
    return max(jobs, key=lambda job: (attempt_of(job), job.created, job.name), default=None)


def waits(job: JobState, otherwise: Reason, stage: str, failure: Failure | None) -> tuple[str, str]:
    """Return reason and sentence for a Job none of whose pods runs.

    `otherwise`: where nothing more is known. `stage`: what has not started, as `the build`.
    `failure`: why its last pod failed.
    """
    reason, message = _pending(job, otherwise)
    if failure is None:
        return reason, f"{stage} has not started: {message}"
    if reason == otherwise:
        return failure.reason, joined(failure.message, f"it is retried automatically: {message}")
    return reason, f"{stage} waits for its next pod: {message}\nbefore: {failure.message}"


def _pending(job: JobState, otherwise: Reason) -> tuple[str, str]:
    if job.deleting:
        return otherwise, "its former Job is being deleted"
    if job.volume is not None:
        return Reason.VOLUME_UNAVAILABLE, waits_for_volume(job.volume)
    why = job.waiting
    reason, _, message = why.partition(": ")
    if lacks_program(reason, message):
        return Reason.IMAGE_NOT_USABLE, lacking("spec.build.image")
    if found := not_created(reason, message):
        return found[0], joined(found[1], _CHECK[found[0]])
    refusals = (
        (is_quota, Reason.QUOTA_EXCEEDED, ""),
        (is_refused, Reason.FAILED_CREATE, ""),
        (lacks_claim, Reason.PODS_UNSCHEDULABLE, _MAKE),
    )
    for holds, name, todo in refusals:
        if holds(why):
            return name, joined(why, todo)
    return otherwise, why or f"it waits for its {'next ' if job.ends else ''}pod"
