"""Other users of a gateway, in a process of their own: what they wait while someone attacks it.

Run as a module: queries short questions until its input ends, then prints JSON with the seconds of
each answer and how often each status came. In the attacking process the attack's own work would be
counted as the gateway's.
"""

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

from support.tied import tied

CLIENTS = 3
PAUSE_SECONDS = 0.02
REQUEST_SECONDS = 60.0
STOP_SECONDS = 120.0
BEGUN = "begun\n"


@dataclass(frozen=True)
class Waits:
    """What the users saw: seconds of each answer, and how often each status came."""

    seconds: tuple[float, ...]
    statuses: Mapping[str, int]

    @property
    def p99(self) -> float:
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


class Bystanders:
    """Users that query from now on."""

    def __init__(self, url: str, model: str) -> None:
        self._process = subprocess.Popen(
            tied([sys.executable, "-m", "support.bystanders", url, model]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[1],
        )

    def begun(self) -> None:
        """Return once one of them has an answer: an interpreter takes seconds on a busy machine."""
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == BEGUN.encode()

    def stop(self) -> Waits:
        try:
            printed, _ = self._process.communicate(timeout=STOP_SECONDS)
        finally:
            self._process.kill()
            self._process.wait(STOP_SECONDS)
        said = json.loads(printed)
        return Waits(tuple(said["seconds"]), said["statuses"])


async def _query(url: str, model: str) -> None:
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    seconds: list[float] = []
    statuses: Counter[str] = Counter()
    question = {
        "model": model,
        "max_tokens": 2,
        "messages": [{"role": "user", "content": "Hello!"}],
    }

    async def user() -> None:
        async with httpx.AsyncClient(base_url=url, timeout=REQUEST_SECONDS) as client:
            while not ended.is_set():
                begin = time.perf_counter()
                try:
                    answer = await client.post("/v1/chat/completions", json=question)
                    statuses[str(answer.status_code)] += 1
                except httpx.TransportError as error:
                    statuses[type(error).__name__] += 1
                if not seconds:
                    sys.stdout.write(BEGUN)
                    sys.stdout.flush()
                seconds.append(time.perf_counter() - begin)
                await asyncio.sleep(PAUSE_SECONDS)

    await asyncio.gather(*(user() for _ in range(CLIENTS)))
    sys.stdout.write(json.dumps({"seconds": seconds, "statuses": statuses}))


if __name__ == "__main__":
    asyncio.run(_query(*sys.argv[1:]))
