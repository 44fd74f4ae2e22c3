"""What the caches cannot know: log tails, blocked Jobs, and volumes that a pod waits for.

Each log of a pod that failed is read once; events of a Job without pods, of a pod that does not
begin on its node, and the log of a running build are read again at growing distances. Nothing else
is read here.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from mm_api.documents.build_result import PROGRESS_MARK
from mm_api.quoted_text import steady
from mm_operator.cluster.cache import Cache, Cached
from mm_operator.cluster.client import MESSAGE_LIMIT, Client
from mm_operator.cluster.pods import condition, moment, needs_log, running, waits_on_its_node
from mm_operator.cluster.resources import EVENT
from mm_operator.errors import ClusterError
from mm_operator.model import VolumeFault, VolumeTrouble

MULTI_ATTACH = "Multi-Attach error"
"""With this the attach controller begins its message, whose reason is FailedAttachVolume."""

_MESSAGE_LIMIT = 300
_READ_LIMIT = 2048
"""Length of a message whose generated parts are left out; who may create Events may write a
megabyte."""


def volume_trouble(events: Iterable[Mapping[str, Any]], pod: str) -> VolumeTrouble | None:
    """Return the worst trouble among Events of a pod; None: they speak of nothing of the kind.

    The kubelet's FailedMount follows from an attachment that failed, every two minutes: the cause
    stays, whatever was said last.
    """
    found: dict[VolumeFault, str] = {}
    for event in events:
        message = str(event.get("message") or "")[:_READ_LIMIT].replace(pod, "the pod")
        said = " ".join(steady(message).split())
        if fault := _fault(str(event.get("reason") or ""), said):
            found[fault] = said[:_MESSAGE_LIMIT].rstrip(".")
    worst = next((fault for fault in VolumeFault if fault in found), None)
    if worst is None:
        return None
    # Multi-Attach names the volume and the pods that have it: names that someone generated.
    message = "" if worst is VolumeFault.ATTACHED_ELSEWHERE else found[worst]
    return VolumeTrouble(worst, message)


def _fault(reason: str, said: str) -> VolumeFault | None:
    if reason == VolumeFault.NOT_ATTACHED:
        attached = said.startswith(MULTI_ATTACH)
        return VolumeFault.ATTACHED_ELSEWHERE if attached else VolumeFault.NOT_ATTACHED
    return VolumeFault.NOT_MOUNTED if reason == VolumeFault.NOT_MOUNTED else None


LOG_LINES = 10
_LINE_LIMIT = 300
"""Characters: a traceback's line, not a dumped tensor."""
_FIRST_POLL_SECONDS = 5.0
"""The Job controller makes a pod within a second; an event about a refusal comes as quickly."""
_LAST_POLL_SECONDS = 300.0
_VOLUME_SECONDS = 10.0
"""A volume that is there is attached and mounted within this; most pods are never looked at."""

_EVENTS_PAGE = 5
_MOST_EVENTS = 50
"""About one Job. Its controller writes one for each distinct refusal; who may create Events may
write any number of 1.5 MB each, so few are read at a time."""

PROGRESS_LINES = 200
"""The build repeats its progress every 5 s: a step that prints less than 40 lines a second never
pushes it out of these, and one that prints more keeps the last one that was seen."""
_PROGRESS_LIMIT = 8192
"""Characters of a line with progress, ten times what a build of many steps writes."""
_PROGRESS_SECONDS = (2.0, 30.0)
"""Shortest and longest pause between two polls of a running build: a tenth of its age in between.
A build of a minute is followed closely; 1,000 builds at once cost 33 requests a second."""


class PodDiagnostics:
    """Reads and remembers, per pod uid and Job uid."""

    def __init__(self, client: Client, cache: Cache) -> None:
        self._client = client
        self._cache = cache
        self._tails: dict[str, tuple[str, ...]] = {}
        self._blocked: dict[str, str] = {}
        self._next_poll: dict[str, float] = {}
        self._volumes: dict[str, VolumeTrouble] = {}
        self._progress: dict[str, str] = {}
        self._read_at: dict[str, datetime] = {}

    async def gather(
        self, jobs: Sequence[Cached], pods: Sequence[Cached], now: datetime
    ) -> float | None:
        """Read what is missing; return seconds until something needs another poll."""
        waits = [await self._poll(job, now) for job in jobs]
        of_jobs = (pod for job in jobs for pod in self._cache.of_job(job.namespace, job.name))
        waits += [await self._look_at_volumes(pod, now) for pod in (*pods, *of_jobs)]
        return min((wait for wait in waits if wait is not None), default=None)

    @property
    def log_tails(self) -> Mapping[str, tuple[str, ...]]:
        return self._tails

    @property
    def progress(self) -> Mapping[str, str]:
        """Return pod uid -> end of the log of a build that runs."""
        return self._progress

    def blocked(self, job_uid: str) -> str:
        """Return why a Job has no pods; empty when that is unknown or not so."""
        return self._blocked.get(job_uid, "")

    def volume(self, pod_uid: str) -> VolumeTrouble | None:
        """Return why the volumes of a pod are not there; None when that is unknown or not so."""
        return self._volumes.get(pod_uid)

    def forget_gone(self) -> None:
        """Drop what concerns objects that the cache no longer holds."""
        held = self._cache.uids()
        memories = (
            self._tails,
            self._blocked,
            self._volumes,
            self._next_poll,
            self._progress,
            self._read_at,
        )
        for memory in memories:
            for uid in [uid for uid in memory if uid not in held]:
                del memory[uid]

    async def _poll(self, job: Cached, now: datetime) -> float | None:
        pods = list(self._cache.of_job(job.namespace, job.name))
        for pod in pods:
            if pod.uid not in self._tails:
                await self._read_log(pod)
        finished, created_at = job.once(_glance)
        if pods or finished:
            self._blocked.pop(job.uid, None)
            waits = [await self._follow(pod, now) for pod in pods] if job.engine else []
            return min((wait for wait in waits if wait is not None), default=None)
        age = (now - (created_at or now)).total_seconds()
        due = self._next_poll.setdefault(job.uid, _FIRST_POLL_SECONDS)
        if age < due:
            return due - age
        if said := await self._refusal(job):
            self._blocked[job.uid] = said
        pause = min(max(age, _FIRST_POLL_SECONDS), _LAST_POLL_SECONDS)
        self._next_poll[job.uid] = age + pause
        return pause

    async def _look_at_volumes(self, pod: Cached, now: datetime) -> float | None:
        """Read the Events of a pod that does not begin; return seconds until the next look."""
        since = pod.once(waits_on_its_node)
        if since is None or pod.deleting:
            self._volumes.pop(pod.uid, None)
            return None
        age = max((now - since).total_seconds(), 0.0)
        due = self._next_poll.setdefault(pod.uid, _VOLUME_SECONDS)
        if age < due:
            return due - age
        pause = min(max(age, _VOLUME_SECONDS), _LAST_POLL_SECONDS)
        self._next_poll[pod.uid] = age + pause
        fields = f"involvedObject.uid={pod.uid},type=Warning"
        if trouble := volume_trouble(await self._events(pod.namespace, fields), pod.name):
            self._volumes[pod.uid] = trouble
        return pause

    async def _read_log(self, pod: Cached) -> None:
        if container := pod.once(needs_log):
            try:
                text = await self._client.log(pod.namespace, pod.name, container, LOG_LINES)
            except ClusterError:
                text = ""  # a tail is a courtesy: without it the exit code is still known
            lines = tuple(line[:_LINE_LIMIT] for line in text.splitlines() if line.strip())
            self._tails[pod.uid] = lines[-LOG_LINES:]

    async def _follow(self, pod: Cached, now: datetime) -> float | None:
        """Read the log's end of a build that runs, when it is due; return seconds until it is."""
        container, since = pod.once(running)
        if since is None:
            self._progress.pop(pod.uid, None)
            return None
        shortest, longest = _PROGRESS_SECONDS
        pause = min(max((now - since).total_seconds() / 10, shortest), longest)
        read = self._read_at.get(pod.uid)
        if read is not None and (left := pause - (now - read).total_seconds()) > 0:
            return left
        self._read_at[pod.uid] = now
        try:
            text = await self._client.log(pod.namespace, pod.name, container, PROGRESS_LINES)
        except ClusterError:
            return pause  # progress is a courtesy, and the next poll comes anyway
        lines = [
            line
            for line in text.splitlines()
            if PROGRESS_MARK in line and len(line) <= _PROGRESS_LIMIT
        ]
        if lines:
            self._progress[pod.uid] = lines[-1]
        return pause

    async def _refusal(self, job: Cached) -> str:
        fields = f"involvedObject.uid={job.uid},reason=FailedCreate"
        events = await self._events(job.namespace, fields)
        return steady(str(events[-1].get("message") or "")[:MESSAGE_LIMIT]) if events else ""

    async def _events(self, namespace: str, fields: str) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = []
        pages = self._client.list(EVENT, namespace, fields=fields, page=_EVENTS_PAGE)
        with suppress(ClusterError):  # they say why something waits, and nothing waits for them
            async for page, _ in pages:
                events += page
                if len(events) >= _MOST_EVENTS:
                    break
        # The newest is last: what an older one says may be over.
        return sorted(events, key=lambda event: int(event["metadata"]["resourceVersion"]))


def _glance(job: Mapping[str, Any]) -> tuple[bool, datetime | None]:
    status, ends = job.get("status") or {}, ("Complete", "Failed")
    ended = any(condition(status, kind).get("status") == "True" for kind in ends)
    return ended, moment(job["metadata"]["creationTimestamp"])
