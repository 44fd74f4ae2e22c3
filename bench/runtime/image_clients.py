"""Clients that send images, without pause or so many a second, in a process of their own.

What they do is not a pod's work, nor may it hold up those that read streams: 64 images a second by
httpx are a quarter of a core, in pieces of milliseconds.
"""

import asyncio
import multiprocessing
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

ENDS_WITHIN_SECONDS = 150
"""Longer than a request may take."""

ATTEMPTS = 5
"""Of a request that is refused with 503, each after as long as it says."""

_GO, _STOP = "go", "stop"


@dataclass(frozen=True)
class Answered:
    """One request."""

    at: float
    """When its answer came, by `perf_counter`, which processes of a machine share."""

    seconds: float


class ImageClients:
    """Several clients, each of which sends one image after the other while they are at work.

    Where they send so many a second, an image that is due while all wait for an answer is late.
    """

    def __init__(self, pipe: "Connection[Any, Any]") -> None:
        self._pipe = pipe

    def begin(self) -> None:
        """Let them send."""
        self._pipe.send(_GO)

    async def end(self) -> list[Answered]:
        """Let each of them end with an answer; return all answers since `begin`.

        Raises:
            RuntimeError: a request failed.
            TimeoutError: they do not end.
        """
        self._pipe.send(_STOP)
        if not await asyncio.to_thread(self._pipe.poll, ENDS_WITHIN_SECONDS):
            raise TimeoutError(f"no end of the image clients in {ENDS_WITHIN_SECONDS} s")
        found: list[Answered] | Exception = self._pipe.recv()
        if isinstance(found, Exception):
            raise RuntimeError("an image client failed") from found  # noqa: TRY004 - no type error
        return found


@contextmanager
def image_clients(
    url: str, bodies: Sequence[bytes], clients: int, a_second: float | None = None
) -> Iterator[ImageClients]:
    """Start them, at rest; they are gone after the block.

    Args:
        url: of the gateway.
        bodies: of requests, each sent once, in this order.
        clients: requests at a time.
        a_second: images of all clients; None: each sends when it has its answer.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_run, args=(there, url, clients, a_second), daemon=True)
    process.start()
    there.close()
    here.send(list(bodies))
    try:
        yield ImageClients(here)
    finally:
        process.kill()
        process.join()
        here.close()


def _run(pipe: "Connection[Any, Any]", url: str, clients: int, a_second: float | None) -> None:
    bodies = iter(pipe.recv())
    while True:
        try:
            pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(asyncio.run(_send(pipe, url, bodies, clients, a_second)))
        except Exception as error:  # noqa: BLE001 - raised again where the result is read
            pipe.send(RuntimeError(repr(error)))


async def _send(
    pipe: "Connection[Any, Any]",
    url: str,
    bodies: Iterator[bytes],
    clients: int,
    a_second: float | None,
) -> list[Answered]:
    stopping = threading.Event()

    def wait() -> None:
        pipe.recv()
        stopping.set()

    threading.Thread(target=wait, daemon=True).start()
    answered: list[Answered] = []
    first = time.perf_counter()
    due = (first + number / a_second if a_second else 0.0 for number in count())
    headers = {"content-type": "application/json"}
    async with httpx.AsyncClient(base_url=url, timeout=120, headers=headers) as http:

        async def one() -> None:
            while not stopping.is_set():
                await asyncio.sleep(max(0.0, next(due) - time.perf_counter()))
                begin, body = time.perf_counter(), next(bodies)
                for _ in range(ATTEMPTS):
                    response = await http.post("/v1/chat/completions", content=body)
                    if response.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                        break
                    print("refused:", response.text[:300], flush=True)
                    await asyncio.sleep(float(response.headers.get("retry-after", 1)))
                if response.is_error:
                    raise RuntimeError(f"{response.status_code}: {response.text[:300]}")
                now = time.perf_counter()
                answered.append(Answered(now, now - begin))

        await asyncio.gather(*(one() for _ in range(clients)))
    return answered
