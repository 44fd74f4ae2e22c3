"""Open-loop load by `mm-lab bench`, in stretches that overlap, so that progress is visible.

One long run would report its percentiles at its end only. Each stretch is a run of its own; the
next one begins when the arrivals of the last are over, and does not wait for its answers.
"""

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from mm_devcluster.errors import DevClusterError

STRETCH_SECONDS = 20
REQUEST_SECONDS = 1800
"""Longest time of one request: it queues while a replica starts, and that takes minutes where
others use the machine as well."""
CLIENT_PRIORITY = -10
"""Nice value. Latency counts from the moment at which a request should have been sent: a client
that waits for a CPU of a busy machine measures its own wait. Beside thirty busy processes it saw
first tokens after 4 to 9 s while servers of half a core each were idle two thirds of the time."""
END_SECONDS = REQUEST_SECONDS + 60.0
"""After a stretch's last arrival: its last answer, and the report of it."""


@dataclass(frozen=True)
class Client:
    """`mm-lab bench` against one endpoint.

    Attributes:
        command: the program with what every run has in common.
        environment: of its processes.
    """

    command: Sequence[str]
    environment: Mapping[str, str]

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start a run; it prints its report as JSON."""
        process = subprocess.Popen(
            [*self.command, "--timeout", f"{REQUEST_SECONDS}s", "-o", "json", *arguments],
            env=dict(self.environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with suppress(OSError):  # only root may; the load runs all the same
            os.setpriority(os.PRIO_PROCESS, process.pid, CLIENT_PRIORITY)
        return process


@dataclass(frozen=True)
class Stretch:
    """What one run reported."""

    began: float
    """Seconds since the load began."""
    report: Mapping[str, Any]

    @property
    def first_token_seconds(self) -> float:
        """Return the 95th percentile of the time to the first token."""
        found = self.report["everything"]["timeToFirstToken"]
        return float(found["p95"]) if found else float("inf")

    @property
    def goodput(self) -> float:
        """Return the share of requests that were answered within the objective."""
        return float(self.report["goodputShare"] or 0.0)


@dataclass
class Load:
    """Runs until stopped; read what it learnt meanwhile or afterwards."""

    client: Client
    rate: float
    objective: str
    stretches: list[Stretch] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _runs: list["subprocess.Popen[str]"] = field(default_factory=list)
    _readers: list[threading.Thread] = field(default_factory=list)

    @property
    def answered(self) -> int:
        """Return how many requests were answered."""
        return sum(int(one.report["answered"]) for one in self.stretches)

    @property
    def failed(self) -> list[str]:
        """Return each kind of failure with its number, and what became of runs that broke."""
        kinds = [
            f"{count} x {kind}"
            for one in self.stretches
            for kind, count in one.report["errors"].items()
        ]
        return kinds + self.problems

    def run(self) -> None:
        """Offer the load until stopped; returns when every request was answered."""
        began = time.monotonic()
        seed = 0
        while not self._stop.is_set():
            seed += 1
            process = self.client.start(
                *("--rate", f"{self.rate:g}", "--duration", f"{STRETCH_SECONDS}s"),
                *("--slo", self.objective, "--seed", str(seed), "--quiet"),
                "--new-connections",
            )
            reader = threading.Thread(target=self._read, args=(process, time.monotonic() - began))
            reader.start()
            self._runs.append(process)
            self._readers.append(reader)
            self._stop.wait(STRETCH_SECONDS)
        for reader in self._readers:
            reader.join()

    def stop(self) -> None:
        """Let the load end with the stretch that is under way."""
        self._stop.set()

    def abandon(self) -> None:
        """End every run at once: its answers are not needed any more."""
        self._stop.set()
        for process in self._runs:
            process.kill()

    def _read(self, process: "subprocess.Popen[str]", began: float) -> None:
        try:
            output, words = process.communicate(timeout=STRETCH_SECONDS + END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.problems.append("a run of mm-lab bench did not end")
            return
        if process.returncode:
            self.problems.append(f"mm-lab bench: {words.strip()[-300:]}")
        else:
            self.stretches.append(Stretch(began, json.loads(output)))


@contextmanager
def offered(client: Client, rate: float, objective: str) -> Iterator[Load]:
    """Offer so many requests a second until the block ends and every one was answered.

    A block that fails does not wait for answers.
    """
    load = Load(client, rate, objective)
    thread = threading.Thread(target=load.run)
    thread.start()
    try:
        yield load
    except BaseException:
        load.abandon()
        raise
    finally:
        load.stop()
        thread.join()


def capacity(client: Client, users: int, seconds: int) -> float:
    """Return the requests a second that the endpoint answers when it is never idle.

    Raises:
        DevClusterError: it answered none.
    """
    process = client.start(
        *("--users", str(users), "--duration", f"{seconds}s", "--warm-up", "3s", "--quiet")
    )
    try:
        output, words = process.communicate(timeout=seconds + END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise DevClusterError("the model did not answer a few users in time") from None
    if process.returncode:
        raise DevClusterError(f"the model cannot be loaded: {words.strip()[-300:]}")
    return float(json.loads(output)["answeredPerSecond"])
