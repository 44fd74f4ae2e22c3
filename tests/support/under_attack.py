"""A real gateway under attack: what others wait, what it takes, what it holds afterwards."""

import asyncio
import json
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field

import httpx
import psutil

from support.bystanders import Bystanders, Waits
from support.memory_group import MemoryGroup
from support.name_server import NameServer

QUIET_SECONDS = 5.0
FREED_SECONDS = 10.0
"""After the last attacker has left everything is as it was."""

RATIO = 2.0
"""Others wait at most so many times as long as without the attack."""
GRACE_SECONDS = 1.0
"""Beside it: attackers, gateway, model and the others share the cores of one machine."""

MEMORY_MARGIN_BYTES = 128 << 20
"""What an allocator may keep of memory that was given back."""
FILES_MARGIN = 8
"""Connections of the bystanders' and of pools to the model server."""
THREADS_MARGIN = 8
"""Threads of pools that start with their first work and stay."""

_SAMPLE_SECONDS = 0.02


@dataclass(frozen=True)
class Attacked:
    """A gateway's process and where it listens.

    Attributes:
        port: of loopback.
        model: what it serves.
        pid: of the gateway; processes that it starts count as its own.
        limit_bytes: of the container's memory, as the operator would set it for this plan.
        rest_bytes: of memory, held before the first attack.
        group: in which the kernel holds them to the limit; None where this user may make none.
        names: which the gateway requests addresses; None: the machine's own, for the same reason.
    """

    port: int
    model: str
    pid: int
    limit_bytes: int
    rest_bytes: int
    group: MemoryGroup | None
    names: NameServer | None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@dataclass(frozen=True)
class Held:
    """What a gateway holds at one moment, with the processes below it."""

    files: int
    threads: int
    memory_bytes: int
    requests: int = 0


@dataclass
class Watched:
    """What an attack did; complete once its block has ended.

    Attributes:
        on: what is attacked.
        quiet: what others waited before it.
        attacked: what they waited during it.
        before: what the gateway held.
        after: what it held once everything was free, or when the time for that was up.
        most_bytes: of resident memory, at any time.
        killed: processes that the kernel ended at the memory limit.
    """

    on: Attacked
    quiet: Waits = field(default_factory=lambda: Waits((0.0,), {}))
    attacked: Waits = field(default_factory=lambda: Waits((0.0,), {}))
    before: Held = field(default_factory=lambda: Held(0, 0, 0))
    after: Held = field(default_factory=lambda: Held(0, 0, 0))
    most_bytes: int = 0
    killed: int = 0

    def check(self) -> None:
        reported = self.report("these numbers")
        assert set(self.attacked.statuses) == {"200"}, reported
        assert self.most_bytes <= self.on.limit_bytes, reported
        assert self.killed == 0, reported
        assert self.after.requests == 0, reported
        assert self.after.files <= self.before.files + FILES_MARGIN, reported
        assert self.after.threads <= self.before.threads + THREADS_MARGIN, reported
        assert self.after.memory_bytes <= self.on.rest_bytes + MEMORY_MARGIN_BYTES, reported
        assert self.attacked.p99 <= RATIO * self.quiet.p99 + GRACE_SECONDS, reported

    def report(self, name: str) -> str:
        numbers = {
            "attack": name,
            "quiet_p99_ms": round(self.quiet.p99 * 1000, 1),
            "attacked_p99_ms": round(self.attacked.p99 * 1000, 1),
            "ratio": round(self.attacked.p99 / max(self.quiet.p99, 1e-6), 2),
            "statuses": dict(self.attacked.statuses),
            "most_mib": self.most_bytes >> 20,
            "limit_mib": self.on.limit_bytes >> 20,
            "limit": "the plan's alone" if self.on.group is None else "the kernel's",
            "killed": self.killed,
            "before": asdict(self.before),
            "after": asdict(self.after),
        }
        return json.dumps(numbers)


def held(pid: int) -> Held:
    """Return what a gateway holds now, with what runs below it; requests are not requested."""
    files = threads = memory = 0
    for process in tree(pid):
        with suppress(psutil.NoSuchProcess):
            files += process.num_fds()
            threads += process.num_threads()
            memory += process.memory_info().rss
    return Held(files, threads, memory)


@asynccontextmanager
async def under_attack(attacked: Attacked, name: str) -> AsyncIterator[Watched]:
    """Watch a gateway and its other users while the block attacks it.

    Users query before it for some seconds, and during it. The block checks answers to the attack
    itself; `Watched.check` says the rest once the block has ended.
    """
    watched = Watched(attacked)
    users = Bystanders(attacked.url, attacked.model)
    try:
        await asyncio.to_thread(users.begun)
        await asyncio.sleep(QUIET_SECONDS)
    finally:
        watched.quiet = await asyncio.to_thread(users.stop)
    watched.before = held(attacked.pid)
    ended = threading.Event()
    sampling = threading.Thread(target=_sample, args=(attacked, watched, ended), daemon=True)
    sampling.start()
    killed = attacked.group.killed if attacked.group else 0
    users = Bystanders(attacked.url, attacked.model)
    try:
        await asyncio.to_thread(users.begun)
        yield watched
    finally:
        watched.attacked = await asyncio.to_thread(users.stop)
        watched.after = await _freed(attacked, watched.before)
        ended.set()
        await asyncio.to_thread(sampling.join)
        watched.killed = attacked.group.killed - killed if attacked.group else 0
        sys.stdout.write(watched.report(name) + "\n")


async def _freed(attacked: Attacked, before: Held) -> Held:
    """Return what is held once it is about what was held before, or when the time is up."""
    deadline = time.monotonic() + FREED_SECONDS
    async with httpx.AsyncClient(base_url=attacked.url, timeout=FREED_SECONDS) as client:
        while True:
            now = held(attacked.pid)
            page = (await client.get("/metrics")).text
            now = Held(now.files, now.threads, now.memory_bytes, _inside(page))
            free = (
                not now.requests
                and now.files <= before.files + FILES_MARGIN
                and now.threads <= before.threads + THREADS_MARGIN
                and now.memory_bytes <= attacked.rest_bytes + MEMORY_MARGIN_BYTES
            )
            if free or time.monotonic() > deadline:
                return now
            await asyncio.sleep(0.2)


def _inside(page: str) -> int:
    """Return the requests that run or wait, by the gateway's own count."""
    lines = (line.rsplit(" ", 1) for line in page.splitlines())
    return sum(
        int(float(value))
        for name, value in lines
        if name.startswith(("mm_requests_running{", "mm_requests_waiting{"))
    )


def _sample(attacked: Attacked, watched: Watched, ended: threading.Event) -> None:
    while not ended.wait(_SAMPLE_SECONDS):
        with suppress(psutil.NoSuchProcess):
            watched.most_bytes = max(watched.most_bytes, held(attacked.pid).memory_bytes)


def tree(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]
